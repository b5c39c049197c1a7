// What the first worker does in a roll call.

#include <fmt/format.h>

#include "workers/roll_call.h"
#include "workers/roll_call_times.h"

namespace cohort::internal {

using std::chrono::milliseconds;

void WorkerRollCall::lead() {
  visitor_ = Thread("roll call", [this](const std::stop_token& stop) { visit_missing(stop); });
  Lock lock(mutex_);
  while (problem_.ok() && !missing().empty()) {
    changed_.wait_for(lock, milliseconds(100));
    absent_.log_now_and_then(missing());
    if (Clock::now() >= deadline_) absent_.give_up(missing());
  }
  if (!problem_.ok()) {
    changed_.wait_for(lock, kLateComers, [&] { return missing().empty(); });
    throw Error(problem_);
  }
  std::vector<Introduction> all{own_};
  for (const auto& [id, arrival] : arrived_) all.push_back(arrival.introduction);
  all_ = all;
  const auto arrived = arrived_;
  lock.unlock();
  for (const auto& [id, arrival] : arrived) {
    // Whoever is gone is missed at the first meeting of the group.
    (void)capture_status([&] { arrival.connection->send(welcome(all)); });
  }
}

void WorkerRollCall::visit_missing(const std::stop_token& stop) {
  std::vector<std::shared_ptr<Connection>> open;
  const auto end_visits = [&] {
    for (const auto& visit : open)
      visit->close({Code::Cancelled, "[WorkerRollCall] the visit is over"});
    open.clear();
  };
  while (!stop.stop_requested()) {
    Lock lock(mutex_);
    changed_.wait_for(lock, stop, kBetweenVisits, [] { return false; });
    const std::vector<int> absent = missing();
    lock.unlock();
    tell_who_is_missing();
    end_visits();
    for (const int worker : absent) {
      if (stop.stop_requested()) return;
      const std::string& address = workers_.workers[static_cast<size_t>(worker)].address;
      const Status status = capture_status(
          [&] { open.push_back(visits_->visit(address, Clock::now() + kVisitTime, hello(own_))); });
      if (!status.ok()) note_failed_visit(worker, status);
    }
  }
}

void WorkerRollCall::tell_who_is_missing() {
  Lock lock(mutex_);
  const Message told = waiting("it waits for " + absent_.describe(missing()));
  const auto arrived = arrived_;
  lock.unlock();
  for (const auto& [id, arrival] : arrived) {
    (void)capture_status([&] { arrival.connection->send(told); });
  }
}

void WorkerRollCall::note_failed_visit(int worker, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (may_pass(why.code)) {
    absent_.set_reason(worker, why.message);
  } else if (problem_.ok() && !arrived_.contains(worker)) {
    problem_ = why;
    changed_.notify_all();
  }
}

void WorkerRollCall::take_hello(const std::shared_ptr<Connection>& from,
                                const Introduction& theirs) {
  if (const std::optional<Message> answer = note_hello(from, theirs)) {
    (void)capture_status([&] { from->send(*answer); });
  }
}

std::optional<Message> WorkerRollCall::note_hello(const std::shared_ptr<Connection>& from,
                                                  const Introduction& theirs) {
  const std::lock_guard lock(mutex_);
  if (is_broken_) return waiting("its group has lost a worker; it forms a new one");
  if (is_over_) {
    return busy(fmt::format("{} ({}) trains already, with {} workers", own_.peer.name, own_.process,
                            all_.size()));
  }
  changed_.notify_all();
  const auto known = arrived_.find(static_cast<int>(theirs.id));
  Status found = compare(own_, theirs);
  if (found.ok() && known != arrived_.end()) found = compare(known->second.introduction, theirs);
  if (!found.ok()) {
    if (problem_.ok()) problem_ = found;
    return problem(found, own_.peer.name);
  }
  if (workers_.self == 0) arrived_[static_cast<int>(theirs.id)] = {theirs, from};
  return std::nullopt;
}

}  // namespace cohort::internal
