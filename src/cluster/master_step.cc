#include "cluster/master_step.h"

#include <fmt/format.h>

#include "cluster/lost_task.h"
#include "runtime/outcome.h"

namespace cohort::internal {
namespace {

using Clock = std::chrono::steady_clock;

// How long tasks that were told to end a step may take, before it ends without them.
constexpr auto kAbortLimit = std::chrono::seconds(2);

// The status as the client is to see it: with the task that it came from.
Status told_by(const std::string& task, Status status) {
  if (status.origin.empty()) status.origin = task;
  if (!status.message.starts_with("From ")) {
    status.message = fmt::format("From {}: {}", status.origin, status.message);
  }
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
    timers_.push_back(setting_.timers->at(Clock::now() + setting_.limit, [self] {
      self->cancel({.code = Code::DeadlineExceeded,
                    .message = fmt::format("[Session] the run took longer than {} ms",
                                           self->setting_.limit.count())});
    }));
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
      task.link->post(write(message));
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
    if (!outcome.status.ok()) outcome.status = told_by(plan_->tasks[i].name, outcome.status);
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
  for (const MasterPlan::Task* task : others) task->link->post(write(message, setting_.own_task));
}

void MasterStep::give_up() {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      if (!is_waiting(i)) continue;
      outcomes_[i] = Status{.code = Code::Cancelled,
                            .message = fmt::format("[Cluster] task {} has not ended the step yet",
                                                   plan_->tasks[i].name),
                            .derived = true};
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
    for (const Timers::Key& key : timers_) setting_.timers->forget(key);
  }
  if (!result.status.ok()) result.fetches.clear();
  finished_(std::move(result));
}

}  // namespace cohort::internal
