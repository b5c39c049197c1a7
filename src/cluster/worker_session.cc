#include <algorithm>

#include "base/raise.h"
#include "cluster/lost_task.h"
#include "cluster/worker.h"

namespace cohort::internal {
namespace {

size_t place_of(uint64_t step) { return step % 1024; }

// Of which tensors have come and no word from the master. More than one client has under way.
constexpr size_t kMaxEarlySteps = 4096;

Status unknown_plan(uint64_t plan) {
  return {.code = Code::Aborted,
          .message = fmt::format(
              "[Cluster] the task does not know plan {}: it was restarted, or the session was "
              "closed; open a new session",
              plan)};
}

}  // namespace

size_t WorkerSession::num_plans() const {
  const std::lock_guard lock(mutex_);
  return plans_.size();
}

size_t WorkerSession::num_running() const {
  const std::lock_guard lock(mutex_);
  return steps_.size();
}

std::vector<LongWait> WorkerSession::waits(std::chrono::steady_clock::time_point before) const {
  std::vector<std::shared_ptr<WorkerStep>> running;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, step] : steps_) running.push_back(step);
  }
  std::vector<LongWait> all;
  for (const auto& step : running) {
    for (LongWait& wait : step->waits(before)) all.push_back(std::move(wait));
  }
  return all;
}

void WorkerSession::add(std::shared_ptr<const WorkerPlan> plan) {
  const std::lock_guard lock(mutex_);
  throw_if_error(closed_);
  const uint64_t id = plan->id;
  if (!plans_.emplace(id, std::move(plan)).second) {
    raise(Code::AlreadyExists, "[Cluster] there is a plan {} already", id);
  }
}

void WorkerSession::release(uint64_t plan) {
  std::shared_ptr<const WorkerPlan> ended;  // destroyed outside the lock
  const std::lock_guard lock(mutex_);
  if (const auto found = plans_.find(plan); found != plans_.end()) {
    ended = std::move(found->second);
    plans_.erase(found);
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
  const uint64_t number = run.step;
  const Status status = capture_status([&] {
    found->start(std::move(run),
                 [self = shared_from_this()](PlanDone done) { self->finish(std::move(done)); });
  });
  if (!status.ok()) finish({.session = id_, .step = number, .status = status});
}

void WorkerSession::finish(PlanDone done) {
  std::shared_ptr<WorkerStep> ended;  // let go of outside of the lock
  {
    const std::lock_guard lock(mutex_);
    over_[place_of(done.step)] = done.step;
    early_.erase(done.step);
    if (const auto found = steps_.find(done.step); found != steps_.end()) {
      ended = std::move(found->second);
      steps_.erase(found);
    }
  }
  master_->post(encode(done, task_));
}

// A step that nobody has been told to run yet costs memory until somebody is.
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

void WorkerSession::arrive(StepTensors tensors) {
  note_early(tensors.step);
  const std::shared_ptr<WorkerStep> found = step(tensors.plan, tensors.step);
  if (found && found->plan().id == tensors.plan) found->arrive(std::move(tensors));
}

void WorkerSession::refuse(const StepTensors& tensors, const Status& why) {
  note_early(tensors.step);
  const std::shared_ptr<WorkerStep> found = step(tensors.plan, tensors.step);
  if (found && found->plan().id == tensors.plan) found->cancel(why);
}

void WorkerSession::abort(const AbortPlan& abort) {
  if (const auto found = step(abort.plan, abort.step)) found->cancel(abort.status);
}

void WorkerSession::lost(const std::string& task, const Status& why) {
  if (task_ != master_->self()) return;  // it has other names for tasks; its master will tell
  std::vector<std::shared_ptr<WorkerStep>> waiting;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, step] : steps_) {
      const std::vector<std::string>& sources = step->plan().sources;
      if (std::find(sources.begin(), sources.end(), task) != sources.end()) waiting.push_back(step);
    }
  }
  for (const auto& step : waiting) step->cancel(lost_task(task, why));
}

void WorkerSession::close(const Status& why) {
  std::vector<std::shared_ptr<WorkerStep>> running;
  decltype(plans_) plans;  // with their links, let go of after the lock
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
