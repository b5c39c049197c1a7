#include "cluster/master_session.h"

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "base/time_limit.h"
#include "cluster/protocol.h"
#include "cluster/task_directory.h"
#include "runtime/thread_pool.h"

namespace cohort::internal {
namespace {

using Clock = std::chrono::steady_clock;

// How long the first run of a signature may look for the tasks that it needs.
constexpr auto kFirstRunLimit = std::chrono::seconds(30);
// How long a task whose connection ended may take to come back.
constexpr auto kReturnLimit = std::chrono::milliseconds(1000);
constexpr auto kCloseLimit = std::chrono::seconds(10);

int find_node(const GraphImpl& graph, const std::string& name) {
  const int node = graph.find(name);
  if (node < 0) raise(Code::NotFound, "[Session] the server's graph has no node '{}'", name);
  return node;
}

NodeOutput find_tensor(const GraphImpl& graph, const std::string& name) {
  if (const auto found = graph.find_output(name)) return *found;
  raise(Code::NotFound, "[Session] the server's graph has no tensor '{}'", name);
}

}  // namespace

MasterSession::MasterSession(uint64_t id, Link::Pointer client, const OpenSession& request,
                             const std::shared_ptr<Peers>& peers, std::shared_ptr<Timers> timers,
                             const std::vector<std::string>& local_devices)
    : id_(id),
      client_(std::move(client)),
      client_name_(request.client),
      options_(request.options),
      directory_(peers, request.options.cluster),
      timers_(std::move(timers)),
      placement_(directory_, request.options, local_devices),
      graph_(reader_.add(text_of(request.graph))) {}

Gathering MasterSession::gathering(std::chrono::milliseconds limit) const {
  if (limit.count() <= 0) limit = request_limit(options_.timeout);
  if (limit.count() <= 0) limit = kFirstRunLimit;
  return {.what = "Session",
          .deadline = Clock::now() + limit,
          .notice = [client = client_](const std::string& text) {
            client->post(encode(Notice{text}));  // which logs it
            if (client->connection()->kind() != "in-process") log_warning("{}", text);
          }};
}

uint64_t MasterSession::extend(const ExtendSession& request) {
  const std::lock_guard lock(building_);
  if (request.version != version_) {
    raise(Code::Aborted,
          "[Session] another client has extended the graph: it has version {}, not {}", version_,
          request.version);
  }
  graph_ = reader_.add(text_of(request.graph));
  return ++version_;
}

RunRequest MasterSession::request_for(const GraphImpl& graph, const PrepareRun& request) const {
  RunRequest made;
  for (const std::string& name : request.over) made.over.push_back(find_node(graph, name));
  for (const std::string& name : request.feeds) made.feeds.push_back(find_tensor(graph, name));
  for (const std::string& name : request.fetches) made.fetches.push_back(find_tensor(graph, name));
  return made;
}

Answer MasterSession::prepare(const PrepareRun& request) {
  const Gathering waiting = gathering(request.limit);
  Answer answer;
  uint64_t run = 0;
  std::vector<Partition> parts;
  RunRequest wanted;
  {
    const std::lock_guard lock(building_);
    wanted = request_for(*graph_, request);
    wanted.bfloat16_edges = options_.enable_bfloat16_sendrecv;
    answer.texts = placement_.place(*graph_, waiting);
    parts = partition(*graph_, placement_.placed(), wanted);
  }
  {
    const std::lock_guard lock(mutex_);
    throw_if_error(closed_);
    run = next_plan_++;
  }
  auto plan = std::make_shared<MasterPlan>(
      make_master_plan(run, std::move(parts), wanted, directory_.self()));
  throw_if_error(lost_task_of(*plan));
  Status status = capture_status([&] { register_plan(*plan, waiting); });
  bool closed = false;
  {
    const std::lock_guard lock(mutex_);
    closed = !closed_.ok();
    if (status.ok()) status = closed_;
    if (status.ok()) plans_[run] = plan;
  }
  if (!status.ok()) release(*plan);
  // A task that got the plan after the message that closes the session has made a new one.
  if (closed) {
    for (const MasterPlan::Task& task : plan->tasks) close_on(task.link);
  }
  throw_if_error(status);
  answer.numbers = {run};
  return answer;
}

void MasterSession::check_incarnation(const std::string& task, const Link::Pointer& link) {
  const std::lock_guard lock(mutex_);
  throw_if_error(closed_);
  const auto [known, fresh] = incarnations_.emplace(task, link->peer().incarnation);
  if (known->second != link->peer().incarnation) {
    throw Error(restarted_task(task));
  }
  const auto [used, first] = tasks_.emplace(task, link);
  if (used->second != link) {
    raise(Code::Aborted, "[Cluster] the connection with task {} was lost; open a new session",
          task);
  }
}

void MasterSession::register_plan(MasterPlan& plan, const Gathering& gathering) {
  std::vector<std::string> names;
  for (const MasterPlan::Task& task : plan.tasks) names.push_back(task.name);
  with_tasks(directory_, names, gathering, [&](size_t i, const Link::Pointer& link) {
    check_incarnation(names[i], link);
    plan.tasks[i].link = link;
  });
  std::map<std::string, uint64_t> incarnations;
  for (const MasterPlan::Task& task : plan.tasks) {
    incarnations[task.name] = task.link->peer().incarnation;
  }
  with_tasks(directory_, names, gathering, [&](size_t i, const Link::Pointer&) {
    MasterPlan::Task& task = plan.tasks[i];
    task.message.session = id_;
    task.message.isolated = options_.isolate_session_state;
    if (directory_.is_renamed()) task.message.task = task.name;
    task.message.limit =
        std::chrono::duration_cast<std::chrono::milliseconds>(gathering.deadline - Clock::now());
    for (auto& peer : task.message.peers) {
      peer.incarnation = incarnations.at(peer.name);
      peer.address = directory_.address(peer.name);
    }
    task.link->call(encode(task.message), gathering.deadline + kReturnLimit);
    task.message = {};
  });
}

void MasterSession::release(const MasterPlan& plan) const {
  for (const MasterPlan::Task& task : plan.tasks) {
    if (!task.link) continue;
    task.link->post(encode(ReleasePlan{.session = id_, .item = plan.id}));
  }
}

void MasterSession::release(uint64_t run) {
  decltype(plans_)::node_type released;
  {
    const std::lock_guard lock(mutex_);
    released = plans_.extract(run);
  }
  if (released) release(*released.mapped());
}

Status MasterSession::lost_task_of(const MasterPlan& plan) const {
  for (const MasterPlan::Task& task : plan.tasks) {
    Link::Pointer known = task.link;
    if (!known) {
      const std::lock_guard lock(mutex_);
      if (const auto found = tasks_.find(task.name); found != tasks_.end()) known = found->second;
    }
    if (!known || !known->ended()) continue;
    const Status back =
        capture_status([&] { (void)directory_.get(task.name, Clock::now() + kReturnLimit); });
    return back.ok() ? restarted_task(task.name) : lost_task(task.name, back);
  }
  return {};
}

void MasterSession::run(RunStep run) {
  PlanPointer plan;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    status = closed_;
    if (const auto found = plans_.find(run.run); found != plans_.end()) plan = found->second;
  }
  if (status.ok() && (!plan || run.feeds.size() != plan->num_feeds)) {
    status = {.code = Code::InvalidArgument,
              .message = "[Session] the run was not prepared, or has another number of feeds"};
  }
  if (!status.ok()) {
    client_->post(encode(StepDone{.call = run.call, .status = status}, directory_.self()));
    return;
  }
  const auto is_lost = [](const MasterPlan::Task& task) { return task.link->ended(); };
  if (std::ranges::none_of(plan->tasks, is_lost)) {
    start(plan, std::move(run));
    return;
  }
  run_pool().submit([self = shared_from_this(), plan, call = run.call] {
    self->client_->post(encode(StepDone{.call = call, .status = self->lost_task_of(*plan)},
                               self->directory_.self()));
  });
}

void MasterSession::start(const PlanPointer& plan, RunStep run) {
  const uint64_t id = next_step_.fetch_add(1);
  const uint64_t call = run.call;
  const auto limit = run.limit.count() > 0 ? run.limit : request_limit(options_.timeout);
  uint64_t number = 0;
  if (plan->draws) number = run.number ? *run.number : numbered_runs_.fetch_add(1);
  const auto step = std::make_shared<MasterStep>(
      plan, std::move(run),
      MasterStep::Setting{.session = id_,
                          .id = id,
                          .number = number,
                          .limit = limit,
                          .local_task = directory_.self(),
                          .timers = timers_},
      [self = shared_from_this(), id](StepDone result) { self->finish(id, std::move(result)); });
  Status closed;
  {
    const std::lock_guard lock(mutex_);
    closed = closed_;
    steps_[id] = step;
    calls_[call] = id;
  }
  if (closed.ok()) {
    step->start();
  } else {
    finish(id, {.call = call, .status = closed});
  }
}

void MasterSession::finish(uint64_t id, StepDone result) {
  decltype(steps_)::node_type ended;  // released outside the lock
  {
    const std::lock_guard lock(mutex_);
    ended = steps_.extract(id);
    calls_.erase(result.call);
  }
  client_->post(encode(result, directory_.self()));
  idle_.notify_all();
}

void MasterSession::cancel(const CancelStep& cancel) {
  StepPointer step;
  {
    const std::lock_guard lock(mutex_);
    const auto call = calls_.find(cancel.item);
    if (call == calls_.end()) return;
    step = steps_.at(call->second);
  }
  step->cancel({.code = Code::Cancelled, .message = "[Session] the run was cancelled"});
}

void MasterSession::done(const Link::Pointer& task, PlanDone outcome) {
  StepPointer step;
  {
    const std::lock_guard lock(mutex_);
    const auto found = steps_.find(outcome.step);
    if (found == steps_.end()) return;  // it ended without this task
    step = found->second;
  }
  step->done(task, std::move(outcome));
}

std::vector<MasterSession::StepPointer> MasterSession::running() const {
  const std::lock_guard lock(mutex_);
  std::vector<StepPointer> steps;
  for (const auto& [id, step] : steps_) steps.push_back(step);
  return steps;
}

std::optional<PendingWait> MasterSession::pending_wait() const {
  for (const StepPointer& step : running()) {
    if (std::optional<PendingWait> pending_wait = step->pending_wait()) return pending_wait;
  }
  return std::nullopt;
}

void MasterSession::add_waits(Clock::time_point before, std::vector<LongWait>& waits) const {
  for (const StepPointer& step : running()) step->add_wait(before, waits);
}

void MasterSession::close(const Status& why) {
  std::map<std::string, Link::Pointer> tasks;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.ok()) return;
    closed_ = why;
    tasks.swap(tasks_);
  }
  const bool lost = why.code == Code::Unavailable;  // the client did not ask for the end
  const Status closed{.code = Code::Cancelled, .message = "[Session] the session was closed"};
  for (const StepPointer& step : running()) step->cancel(lost ? why : closed);
  decltype(plans_) plans;  // with their links, released after the lock
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, kCloseLimit, [&] { return steps_.empty(); });
  plans.swap(plans_);
  lock.unlock();
  for (const auto& [name, link] : tasks) close_on(link);
}

void MasterSession::close_on(const Link::Pointer& task) const {
  if (!task) return;
  (void)capture_status([&] { task->begin(encode(CloseWorkerSession{id_}), [](const Answer&) {}); });
}

}  // namespace cohort::internal
