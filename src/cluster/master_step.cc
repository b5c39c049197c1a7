#include "cluster/master_step.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cluster/protocol.h"
#include "cluster/task_directory.h"
#include "graph/function_graph.h"
#include "graph/serialize_graph.h"
#include "ops/all_ops.h"
#include "runtime/graph_run.h"

namespace cohort::internal {
namespace {

// The index of `position` in `list`; appends it when it is missing.
uint64_t place_in(std::vector<size_t>& list, size_t position) {
  const auto found = std::ranges::find(list, position);
  if (found != list.end()) return static_cast<uint64_t>(found - list.begin());
  list.push_back(position);
  return list.size() - 1;
}

class PlanGrouper {
 public:
  PlanGrouper(uint64_t id, const RunRequest& request) {
    plan_.id = id;
    plan_.num_feeds = request.feeds.size();
    plan_.num_fetches = request.fetches.size();
  }

  MasterPlan group(const std::vector<Partition>& parts, const std::string& local_task) {
    name_tasks(parts, local_task);
    for (const Partition& part : parts) add(part);
    for (const auto& [edge, from] : senders_) connect(edge, from, receivers_.at(edge));
    for (MasterPlan::Task& task : plan_.tasks) {
      task.message.plan = plan_.id;
      task.message.num_edges =
          senders_.empty() ? 0 : static_cast<uint64_t>(senders_.rbegin()->first) + 1;
      task.message.num_feeds = task.feeds.size();
      task.message.num_fetches = task.fetches.size();
      task.message.ordered = parts.size() > 1;
    }
    return std::move(plan_);
  }

 private:
  void name_tasks(const std::vector<Partition>& parts, const std::string& local_task) {
    for (const Partition& part : parts) places_.emplace(task_name(part.device), 0);
    for (auto& [name, place] : places_) {
      if (name == local_task) continue;
      place = plan_.tasks.size();
      plan_.tasks.push_back({.name = name});
    }
    if (const auto own = places_.find(local_task); own != places_.end()) {
      own->second = plan_.tasks.size();
      plan_.tasks.push_back({.name = local_task});
    }
  }

  void add(const Partition& part) {
    const size_t place = places_.at(task_name(part.device));
    MasterPlan::Task& task = plan_.tasks[place];
    PlanPart made{.device = part.device.split().second,
                  .graph = buffer_of(serialize_graph(*part.graph))};
    for (const auto& [position, node_output] : part.feeds) {
      made.feeds.push_back(place_of(place_in(task.feeds, position), node_output));
    }
    for (const auto& [position, node_output] : part.fetches) {
      made.fetches.push_back(place_of(place_in(task.fetches, position), node_output));
    }
    for (const int target : part.targets) made.targets.push_back(static_cast<uint64_t>(target));
    for (int id = 0; id < part.graph->size(); ++id) {
      const Node& node = part.graph->node(id);
      if (node.op == &kSend) senders_[node.attrs.integer("edge")] = place;
      if (node.op == &kRecv) receivers_[node.attrs.integer("edge")] = place;
    }
    // Only a RandomKey node asks for the number of its run; other random ops are given their keys.
    plan_.draws |= any_node(*part.graph, [](const Node& node) { return node.op == &kRandomKey; });
    task.message.parts.push_back(std::move(made));
  }

  static PlanPart::Place place_of(uint64_t position, NodeOutput node_output) {
    return {position, static_cast<uint64_t>(node_output.node),
            static_cast<uint64_t>(node_output.output)};
  }

  void connect(int64_t edge, size_t from, size_t to) {
    if (from == to) return;
    RegisterPlan& message = plan_.tasks[from].message;
    const std::string& name = plan_.tasks[to].name;
    const auto known =
        std::ranges::find_if(message.peers, [&](const auto& peer) { return peer.name == name; });
    const auto peer = static_cast<uint64_t>(known - message.peers.begin());
    if (known == message.peers.end()) message.peers.push_back({name, 0});
    message.sends.push_back({static_cast<uint64_t>(edge), peer});
    std::vector<std::string>& sources = plan_.tasks[to].message.sources;
    const std::string& sender = plan_.tasks[from].name;
    if (std::ranges::find(sources, sender) == sources.end()) {
      sources.push_back(sender);
    }
  }

  MasterPlan plan_;
  std::map<std::string, size_t> places_;  // of tasks in the plan
  std::map<int64_t, size_t> senders_;     // by edge: the place of the task
  std::map<int64_t, size_t> receivers_;
};

}  // namespace

MasterPlan make_master_plan(uint64_t id, std::vector<Partition> parts, const RunRequest& request,
                            const std::string& local_task) {
  return PlanGrouper(id, request).group(parts, local_task);
}

namespace {

using Clock = std::chrono::steady_clock;

// How long tasks that were told to end a step may take before the step ends without them.
constexpr auto kAbortLimit = std::chrono::seconds(2);

// The status for the client, which names the task that it came from once, at the beginning: a
// node's place is then "on CPU:0" instead of "on /job:worker/replica:0/task:0/device:CPU:0".
Status attributed_to(const std::string& task, Status status) {
  if (status.origin.empty()) status.origin = task;
  if (status.message.starts_with("From ")) return status;
  const std::string place = " on " + status.origin + "/device:";
  if (const size_t at = status.message.rfind(place); at != std::string::npos) {
    status.message.replace(at, place.size(), " on ");
  }
  status.message = fmt::format("From {}: {}", status.origin, status.message);
  return status;
}

}  // namespace

MasterStep::MasterStep(std::shared_ptr<const MasterPlan> plan, RunStep run, Setting setting,
                       Finished finished)
    : plan_(std::move(plan)),
      run_(std::move(run)),
      setting_(std::move(setting)),
      finished_(std::move(finished)),
      outcomes_(plan_->tasks.size()),
      waiting_(plan_->tasks.size()) {
  result_.call = run_.call;
  result_.fetches.resize(plan_->num_fetches);
}

void MasterStep::start() {
  const auto self = shared_from_this();
  if (setting_.limit.count() > 0) {
    const std::lock_guard lock(mutex_);
    timers_.push_back(
        setting_.timers->at(Clock::now() + setting_.limit, [self] { self->run_out_of_time(); }));
  }
  RunPlan message{.session = setting_.session,
                  .plan = plan_->id,
                  .step = setting_.id,
                  .number = setting_.number,
                  .trace = run_.trace,
                  .feeds = {}};
  for (size_t i = 0; i < plan_->tasks.size(); ++i) {
    const MasterPlan::Task& task = plan_->tasks[i];
    message.feeds.clear();
    for (const size_t position : task.feeds) message.feeds.push_back(run_.feeds[position]);
    if (task.link->ended()) {
      settle(i, {.status = lost_task(task.name, {.code = Code::Unavailable,
                                                 .message = "the connection ended before"})});
    } else {
      task.link->post(encode(message));
    }
  }
  if (plan_->tasks.empty()) finish();
}

void MasterStep::done(const Link::Pointer& from, PlanDone outcome) {
  for (size_t i = 0; i < plan_->tasks.size(); ++i) {
    if (plan_->tasks[i].link != from) continue;
    if (outcome.status.ok() && outcome.fetches.size() != plan_->tasks[i].fetches.size()) {
      outcome.status = {.code = Code::Internal,
                        .message = "[Cluster] the task returned too many or too few fetches"};
    }
    if (!outcome.status.ok()) outcome.status = attributed_to(plan_->tasks[i].name, outcome.status);
    settle(i, std::move(outcome));
    return;
  }
}

void MasterStep::lost(const Link::Pointer& task, const Status& why) {
  for (size_t i = 0; i < plan_->tasks.size(); ++i) {
    if (plan_->tasks[i].link != task) continue;
    settle(i, {.status = lost_task(plan_->tasks[i].name, why)});
  }
}

void MasterStep::settle(size_t task, PlanDone outcome) {
  bool last = false;
  const Status status = outcome.status;
  {
    const std::lock_guard lock(mutex_);
    if (finished_once_ || !is_waiting(task)) return;
    outcomes_[task] = status;
    for (size_t i = 0; i < outcome.fetches.size() && status.ok(); ++i) {
      result_.fetches[plan_->tasks[task].fetches[i]] = std::move(outcome.fetches[i]);
    }
    for (NodeTiming& timing : outcome.timings) result_.timings.push_back(std::move(timing));
    last = --waiting_ == 0;
  }
  if (last) {
    finish();
  } else if (!status.ok() && !status.derived) {
    abort(status);
  }
}

void MasterStep::cancel(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_once_ || !cancelled_.ok()) return;
    cancelled_ = why;
  }
  abort(why);
}

std::vector<std::string> MasterStep::waited_for() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < outcomes_.size(); ++i) {
    if (is_waiting(i)) names.push_back(plan_->tasks[i].name);
  }
  return names;
}

void MasterStep::add_wait(Clock::time_point before, std::vector<LongWait>& waits) {
  if (began_ > before || waits_on_purpose(setting_.limit)) return;
  LongWait found{.kind = WaitKind::Answer,
                 .what = fmt::format("step {} of a session", setting_.id),
                 .whom = {},
                 .since = began_};
  const std::lock_guard lock(mutex_);
  found.whom = waited_for();
  std::erase(found.whom, setting_.local_task);
  if (!finished_once_ && !found.whom.empty()) waits.push_back(std::move(found));
}

void MasterStep::run_out_of_time() {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    names = waited_for();
  }
  cancel({.code = Code::DeadlineExceeded,
          .message = fmt::format("[Session] the run took longer than {} ms, waiting for {}",
                                 setting_.limit.count(), fmt::join(names, ", "))});
}

std::optional<PendingWait> MasterStep::pending_wait() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < outcomes_.size() && !finished_once_; ++i) {
    const MasterPlan::Task& task = plan_->tasks[i];
    if (!is_waiting(i) || task.name == setting_.local_task || task.link->ended()) continue;
    const auto is_open = [self = shared_from_this(), i] {
      const std::lock_guard inner(self->mutex_);
      return !self->finished_once_ && self->is_waiting(i);
    };
    return PendingWait{.on = task.link->connection(), .is_open = is_open};
  }
  return std::nullopt;
}

// The first call counts.
void MasterStep::abort(const Status& why) {
  std::vector<const MasterPlan::Task*> others;
  {
    const std::lock_guard lock(mutex_);
    if (aborted_ || finished_once_) return;
    aborted_ = true;
    for (size_t i = 0; i < plan_->tasks.size(); ++i) {
      if (is_waiting(i)) others.push_back(&plan_->tasks[i]);
    }
    timers_.push_back(setting_.timers->at(Clock::now() + kAbortLimit,
                                          [self = shared_from_this()] { self->give_up(); }));
  }
  AbortPlan message{
      .session = setting_.session, .plan = plan_->id, .step = setting_.id, .status = why};
  message.status.derived = true;
  for (const MasterPlan::Task* task : others)
    task->link->post(encode(message, setting_.local_task));
}

void MasterStep::give_up() {
  {
    const std::lock_guard lock(mutex_);
    silent_ = waited_for();
    for (auto& outcome : outcomes_) {
      if (!outcome) outcome = Status{.code = Code::Cancelled, .derived = true};
    }
  }
  finish();
}

void MasterStep::finish() {
  StepDone result;
  {
    const std::lock_guard lock(mutex_);
    if (finished_once_) return;
    finished_once_ = true;
    std::vector<Status> outcomes{cancelled_};
    for (const auto& outcome : outcomes_) outcomes.push_back(outcome.value_or(Status{}));
    result = std::move(result_);
    result.status = root_cause(outcomes);
    if (!silent_.empty()) {
      result.status.message +=
          fmt::format("; {} did not end the run when told to", fmt::join(silent_, ", "));
    }
    for (const Timers::Key& key : timers_) setting_.timers->forget(key);
    run_.charge.reset();  // the client that hears of the end may begin the next step at once
  }
  if (!result.status.ok()) result.fetches.clear();
  finished_(std::move(result));
}

}  // namespace cohort::internal
