#include "cluster/worker.h"

#include <algorithm>

#include "base/activity.h"
#include "base/raise.h"
#include "cluster/task_directory.h"
#include "cohort/device.h"
#include "graph/scopes.h"

namespace cohort::internal {

Worker::SessionPointer Worker::find_or_make(const Link::Pointer& master, const RegisterPlan& plan) {
  const std::lock_guard lock(mutex_);
  if (master->ended()) raise(Code::Cancelled, "[Cluster] the master is gone");
  SessionPointer& session = sessions_[plan.session];
  if (!session) {
    session = std::make_shared<WorkerSession>(
        plan.session, master, plan.isolated ? std::make_shared<DeviceState>() : state_,
        plan.task.empty() ? peers_->self() : plan.task);
  }
  if (!session->is_of(master)) {
    raise(Code::PermissionDenied, "[Cluster] session {:x} belongs to another master", plan.session);
  }
  return session;
}

Answer Worker::register_plan(const Link::Pointer& master, const RegisterPlan& plan) {
  const Deadline deadline = std::chrono::steady_clock::now() + plan.limit;
  // Made before the wait for peers, so that a close that comes meanwhile finds the session.
  const SessionPointer session = find_or_make(master, plan);
  std::vector<Link::Pointer> links;
  for (const auto& peer : plan.peers) {
    links.push_back(peer.address.empty() ? peers_->get(peer.name, deadline)
                                         : peers_->get_at(peer.address, deadline));
    if (links.back()->peer().incarnation == peer.incarnation) continue;
    throw Error(restarted_task(peer.name));
  }
  // Names that the session gave to tasks are not those of links.
  const std::string master_task = plan.task.empty() ? master->peer().name : "";
  session->add(
      make_worker_plan(plan, session->state(), std::move(links), session->task(), master_task));
  return {};
}

void Worker::note_chief(const ClearContainers& request) {
  const std::lock_guard lock(mutex_);
  for (const std::string& container : request.containers) {
    int64_t& latest = chiefs_[container];
    if (request.chief < latest) {
      raise(Code::FailedPrecondition,
            "[Server] a chief that started {:.3f} s later has taken over {}; this one must not "
            "clear the variables there. Either two chiefs run, and one must stop, or the clock of "
            "this chief's machine is behind; set the clock and start the chief again",
            static_cast<double>(latest - request.chief) * 1e-9, peers_->self());
    }
    latest = request.chief;
  }
}

void Worker::clear(const ClearContainers& request) {
  if (request.chief != 0) note_chief(request);
  const std::vector<std::string>& containers = request.containers;
  const std::string job = DeviceName::parse(peers_->self()).job.value_or("");
  if (containers.empty()) state_->clear(kDefaultContainer);
  for (const std::string& container : containers) {
    if (container == job) state_->clear(kDefaultContainer);
    state_->clear(container);
  }
}

std::vector<std::string> Worker::devices() const {
  std::vector<std::string> names;
  for (const std::string& device : cohort::list_devices()) {
    names.push_back(peers_->self() + "/device:" + DeviceName::parse(device).split().second);
  }
  return names;
}

void Worker::run(const Link::Pointer& master, RunPlan run) {
  if (const SessionPointer session = find(master, run.session)) {
    return session->run(std::move(run));
  }
  master->post(encode(
      PlanDone{.session = run.session,
               .step = run.step,
               .status = {.code = Code::Aborted,
                          .message = "[Cluster] the task does not know the session: it was "
                                     "restarted, or the session was closed; open a new session"}},
      peers_->self()));
}

void Worker::close_sessions(const std::function<bool(WorkerSession&)>& which, const Status& why) {
  std::vector<SessionPointer> taken;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(sessions_, [&](const auto& entry) {
      if (!which(*entry.second)) return false;
      taken.push_back(entry.second);
      return true;
    });
  }
  for (const SessionPointer& session : taken) session->close(why);
}

void Worker::lost(const Link::Pointer& link, const Status& why) {
  close_sessions([&](WorkerSession& session) { return session.is_of(link); }, why);
  for (const SessionPointer& one : all_sessions()) one->lost(link->peer().name, why);
}

std::vector<Worker::SessionPointer> Worker::all_sessions() const {
  const std::lock_guard lock(mutex_);
  std::vector<SessionPointer> all;
  for (const auto& [id, session] : sessions_) all.push_back(session);
  return all;
}

void Worker::add_waits(std::chrono::steady_clock::time_point before,
                       std::vector<LongWait>& waits) const {
  for (const SessionPointer& session : all_sessions()) session->add_waits(before, waits);
}

void Worker::describe(ServerStatus& status) const {
  status.devices = devices();
  for (const SessionPointer& session : all_sessions()) {
    ++status.worker_sessions;
    status.plans += session->num_plans();
    status.running_steps += session->num_running();
  }
}

namespace {

size_t place_of(uint64_t step) { return step % 1024; }

// Steps for which tensors have come before the master's message. A client has fewer under way.
constexpr size_t kMaxEarlySteps = 4096;

Status unknown_plan(uint64_t plan) {
  return {.code = Code::Aborted,
          .message = fmt::format(
              "[Cluster] the task does not know plan {}: it was restarted, or the session was "
              "closed; open a new session",
              plan)};
}

}  // namespace

void WorkerSession::add_waits(std::chrono::steady_clock::time_point before,
                              std::vector<LongWait>& waits) const {
  std::vector<std::shared_ptr<WorkerStep>> running;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, step] : steps_) running.push_back(step);
  }
  for (const auto& step : running) step->add_waits(before, waits);
}

void WorkerSession::add(std::shared_ptr<const WorkerPlan> plan) {
  const std::lock_guard lock(mutex_);
  throw_if_error(closed_);
  const uint64_t id = plan->id;
  if (!plans_.emplace(id, std::move(plan)).second) {
    raise(Code::AlreadyExists, "[Cluster] there is a plan {} already", id);
  }
}

std::shared_ptr<WorkerStep> WorkerSession::step(uint64_t plan, uint64_t step) {
  const std::lock_guard lock(mutex_);
  if (!closed_.ok() || over_[place_of(step)] == step) return nullptr;
  if (const auto found = steps_.find(step); found != steps_.end()) return found->second;
  const auto known = plans_.find(plan);
  if (known == plans_.end()) return nullptr;
  return steps_[step] = std::make_shared<WorkerStep>(known->second, step);
}

void WorkerSession::run(RunPlan run) {
  {
    const std::lock_guard lock(mutex_);
    early_.erase(run.step);
  }
  const std::shared_ptr<WorkerStep> found = step(run.plan, run.step);
  if (!found || found->plan().id != run.plan) {
    finish({.session = id_, .step = run.step, .status = unknown_plan(run.plan)});
    return;
  }
  note_step();
  const uint64_t number = run.step;
  const Status status = capture_status([&] {
    found->start(std::move(run),
                 [self = shared_from_this()](PlanDone done) { self->finish(std::move(done)); });
  });
  if (!status.ok()) finish({.session = id_, .step = number, .status = status});
}

void WorkerSession::finish(PlanDone done) {
  decltype(steps_)::node_type ended;  // destroyed outside the lock
  {
    const std::lock_guard lock(mutex_);
    over_[place_of(done.step)] = done.step;
    early_.erase(done.step);
    ended = steps_.extract(done.step);
  }
  master_->post(encode(done, task_));
}

// A step that the master has not started yet costs memory until it does.
void WorkerSession::note_early(uint64_t step) {
  const std::lock_guard lock(mutex_);
  if (over_[place_of(step)] == step || steps_.contains(step)) return;
  if (early_.size() >= kMaxEarlySteps) {
    raise(Code::ResourceExhausted,
          "[Cluster] tensors came for {} steps that were never run; the peer is out of step",
          early_.size());
  }
  early_.insert(step);
}

void WorkerSession::lost(const std::string& task, const Status& why) {
  if (task_ != master_->self())
    return;  // the session renames tasks, so its master reports the loss
  std::vector<std::shared_ptr<WorkerStep>> waiting;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, step] : steps_) {
      const std::vector<std::string>& sources = step->plan().sources;
      if (std::ranges::find(sources, task) != sources.end()) waiting.push_back(step);
    }
  }
  for (const auto& step : waiting) step->cancel(lost_task(task, why));
}

void WorkerSession::close(const Status& why) {
  std::vector<std::shared_ptr<WorkerStep>> running;
  decltype(plans_) plans;  // with their links, destroyed after the lock
  {
    const std::lock_guard lock(mutex_);
    closed_ = why;
    for (const auto& [id, step] : steps_) running.push_back(step);
    steps_.clear();
    plans.swap(plans_);
  }
  for (const auto& step : running) step->cancel(why);
}

}  // namespace cohort::internal
