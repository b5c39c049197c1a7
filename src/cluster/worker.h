#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/mutex.h"
#include "cluster/peers.h"
#include "cluster/worker_step.h"

namespace cohort::internal {

// What a task keeps for one session of some master. Ends with the link to that master. Thread-safe.
class WorkerSession : public std::enable_shared_from_this<WorkerSession> {
 public:
  // `task`: the name of this task in the session.
  WorkerSession(uint64_t id, Link::Pointer master, std::shared_ptr<DeviceState> state,
                std::string task)
      : id_(id), master_(std::move(master)), state_(std::move(state)), task_(std::move(task)) {}

  uint64_t id() const { return id_; }
  bool is_of(const Link::Pointer& master) const { return master == master_; }
  const std::shared_ptr<DeviceState>& state() const { return state_; }
  const std::string& task() const { return task_; }
  size_t num_plans() const {
    const std::lock_guard lock(mutex_);
    return plans_.size();
  }
  size_t num_running() const {
    const std::lock_guard lock(mutex_);
    return steps_.size();
  }
  void add_waits(std::chrono::steady_clock::time_point before, std::vector<LongWait>& waits) const;

  // Throws AlreadyExists if the plan's number is taken.
  void add(std::shared_ptr<const WorkerPlan> plan);
  // Forgets the plan; steps that have begun go on.
  void release(uint64_t plan) {
    decltype(plans_)::node_type ended;  // destroyed outside the lock
    const std::lock_guard lock(mutex_);
    ended = plans_.extract(plan);
  }
  // The result goes to the master, also if the plan does not exist.
  void run(RunPlan run);
  void arrive(StepTensors tensors) {
    if (const auto found = step_of(tensors)) found->arrive(std::move(tensors));
  }
  // Ends the step of the tensors with `why`.
  void refuse(const StepTensors& tensors, const Status& why) {
    if (const auto found = step_of(tensors)) found->cancel(why);
  }
  void abort(const AbortPlan& abort) {
    if (const auto found = step(abort.plan, abort.step)) found->cancel(abort.status);
  }
  // Fails the steps that wait for tensors of that task, even if the master can still reach it.
  void lost(const std::string& task, const Status& why);
  // Ends the running steps and refuses new ones.
  void close(const Status& why);

 private:
  // Finds or makes the step. Null if the step is over or the plan is unknown.
  std::shared_ptr<WorkerStep> step(uint64_t plan, uint64_t step);
  // The same for tensors, which may come before the master starts the step.
  std::shared_ptr<WorkerStep> step_of(const StepTensors& tensors) {
    note_early(tensors.step);
    const std::shared_ptr<WorkerStep> found = step(tensors.plan, tensors.step);
    return found && found->plan().id == tensors.plan ? found : nullptr;
  }
  void note_early(uint64_t step);
  void finish(PlanDone done);

  const uint64_t id_;
  const Link::Pointer master_;
  const std::shared_ptr<DeviceState> state_;
  const std::string task_;

  mutable Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const WorkerPlan>> plans_;  // guarded, as all below
  std::unordered_map<uint64_t, std::shared_ptr<WorkerStep>> steps_;
  std::unordered_set<uint64_t> early_;  // steps of which only tensors have come
  std::array<uint64_t, 1024> over_{};   // the last steps that ended, each at its number modulo
  Status closed_;
};

// The side of a task that runs parts of graphs for masters. Thread-safe.
class Worker {
 public:
  explicit Worker(std::shared_ptr<Peers> peers) : peers_(std::move(peers)) {}

  // Messages that are answered later, on any thread.
  Answer register_plan(const Link::Pointer& master, const RegisterPlan& plan);
  void close_session(const Link::Pointer& master, uint64_t session) {
    close_sessions([&](WorkerSession& one) { return one.id() == session && one.is_of(master); },
                   {.code = Code::Cancelled, .message = "[Session] the session was closed"});
  }
  // Throws FailedPrecondition if a later chief has the containers.
  void clear(const ClearContainers& request);
  std::vector<std::string> devices() const;

  // Messages of steps; short, or long only when the plan is.
  void run(const Link::Pointer& master, RunPlan run);
  void arrive(StepTensors tensors) {
    if (const SessionPointer session = find(tensors.session)) session->arrive(std::move(tensors));
  }
  void refuse(const StepTensors& tensors, const Status& why) {
    if (const SessionPointer session = find(tensors.session)) session->refuse(tensors, why);
  }
  void abort(const Link::Pointer& master, const AbortPlan& abort) {
    if (const SessionPointer session = find(master, abort.session)) session->abort(abort);
  }
  void release(const Link::Pointer& master, const ReleasePlan& release) {
    if (const SessionPointer session = find(master, release.session))
      session->release(release.item);
  }

  // Ends the sessions of that master, and the steps that wait for tensors of that task.
  void lost(const Link::Pointer& link, const Status& why);
  void stop(const Status& why) {
    close_sessions([](WorkerSession&) { return true; }, why);
  }

  // Writes what this worker has and does into the status of its server.
  void describe(ServerStatus& status) const;
  // Adds the waits for tensors of other tasks since before that time.
  void add_waits(std::chrono::steady_clock::time_point before, std::vector<LongWait>& waits) const;

 private:
  using SessionPointer = std::shared_ptr<WorkerSession>;
  SessionPointer find(uint64_t session) const {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session);
    return found == sessions_.end() ? nullptr : found->second;
  }
  // Throws FailedPrecondition if a later chief has one of the containers.
  void note_chief(const ClearContainers& request);
  // Null if the session does not exist or is of another master.
  SessionPointer find(const Link::Pointer& master, uint64_t session) const {
    SessionPointer found = find(session);
    return found && found->is_of(master) ? found : nullptr;
  }
  SessionPointer find_or_make(const Link::Pointer& master, const RegisterPlan& plan);
  void close_sessions(const std::function<bool(WorkerSession&)>& which, const Status& why);
  std::vector<SessionPointer> all_sessions() const;

  const std::shared_ptr<Peers> peers_;
  const std::shared_ptr<DeviceState> state_ = std::make_shared<DeviceState>();
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, SessionPointer> sessions_;  // guarded by mutex_, as the next
  std::map<std::string, int64_t> chiefs_;                  // the latest one, by container
};

}  // namespace cohort::internal
