// What workers other than the first do in a roll call.

#include <fmt/format.h>

#include "base/raise.h"
#include "workers/roll_call.h"
#include "workers/roll_call_times.h"

namespace cohort::internal {

using std::chrono::milliseconds;

void WorkerRollCall::follow() {
  for (;;) {
    // A leader that is there gives up first, and says who is missing.
    ask_leader(deadline_ + kLateComers);
    Lock lock(mutex_);
    if (!problem_.ok()) throw Error(problem_);
    if (!all_.empty()) return;
    absent_.log_now_and_then(missing());
    if (Clock::now() >= deadline_) absent_.give_up(missing());
    lock.unlock();
    pause_while_busy();
  }
}

void WorkerRollCall::ask_leader(Deadline deadline) {
  const std::string& address = workers_.workers[0].address;
  std::shared_ptr<Connection> visit;
  const Status status = capture_status([&] {
    visit = visits_->visit(address, std::min(deadline, Clock::now() + kVisitTime), hello(own_));
  });
  Lock lock(mutex_);
  if (!status.ok()) {
    if (!may_pass(status.code)) throw Error(status);
    absent_.set_reason(0, status.message);
    return;
  }
  with_leader_ = visit;
  absent_.set_reason(0, "it is there");
  while (problem_.ok() && all_.empty() && busy_.empty() && with_leader_ == visit) {
    changed_.wait_for(lock, milliseconds(100));
    absent_.log_now_and_then(missing());
    if (Clock::now() >= deadline) return;
  }
}

void WorkerRollCall::pause_while_busy() {
  Lock lock(mutex_);
  if (!busy_.empty() && !options_.resumes && Clock::now() - began_ > kBusyTime) {
    raise(Code::AlreadyExists,
          "[MultiWorkerMirroredStrategy] {} ({}) comes to a group that has begun: {}",
          own_.peer.name, own_.process, busy_);
  }
  busy_.clear();
  changed_.wait_for(lock, kBetweenVisits, [&] { return !problem_.ok(); });
}

void WorkerRollCall::ended(const std::shared_ptr<Connection>& visit) {
  const std::lock_guard lock(mutex_);
  if (with_leader_ != visit) return;
  with_leader_.reset();
  changed_.notify_all();
}

void WorkerRollCall::take_welcome(std::vector<Introduction> all) {
  const std::lock_guard lock(mutex_);
  const auto id = static_cast<size_t>(workers_.self);
  if (all.size() <= id || all[id].peer.incarnation != own_.peer.incarnation) return;
  all_ = std::move(all);
  changed_.notify_all();
}

}  // namespace cohort::internal
