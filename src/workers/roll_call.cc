#include "workers/roll_call.h"

#include <fmt/ranges.h>

#include "base/log.h"
#include "base/raise.h"
#include "collectives/group.h"
#include "transport/status_message.h"

namespace cohort::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kVisitTime{500};  // for one try to reach somebody
constexpr milliseconds kBetweenVisits{300};
constexpr seconds kFirstLog{2};  // then after twice that time, and so on
// So long a worker that was told that the group has begun tries again: the others may not have
// noticed yet that they have lost its predecessor.
constexpr seconds kBusyTime{5};
// After a problem the leader waits so long for those who are on their way, to tell them too.
constexpr milliseconds kLateComers{1000};

// Whether trying again may help.
bool may_pass(Code code) {
  return code == Code::Unavailable || code == Code::DeadlineExceeded || code == Code::Cancelled;
}

}  // namespace

WorkerRollCall::WorkerRollCall(WorkerList workers, Options options)
    : workers_(std::move(workers)),
      options_(std::move(options)),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.timeout)),
      next_log_(Clock::now() + kFirstLog) {
  visits_ = std::make_unique<Visits>(
      options_.credentials,
      Visits::Events{.answered = [this](const Message& message) { answered(message); },
                     .ended = [this](const auto& visit, const Status&) { ended(visit); }});
  const Status status = capture_status([&] { listen(); });
  if (status.ok()) return;
  tell_everybody(status);
  throw Error(status);
}

WorkerRollCall::~WorkerRollCall() {
  visitor_ = {};
  endpoint_.reset();
  visits_.reset();
}

void WorkerRollCall::listen() {
  own_ = {.version = COHORT_VERSION,
          .peer = {.name = workers_.own().name},
          .id = static_cast<uint64_t>(workers_.self),
          .cluster = workers_.cluster,
          .workers = static_cast<uint64_t>(workers_.size()),
          .replicas = options_.replicas,
          .settings = options_.settings,
          .host = this_host(),
          .process = this_process(),
          .resumes = options_.resumes};
  Status failure = capture_status([&] {
    const std::lock_guard lock(mutex_);  // nobody is heard before it is complete
    endpoint_ = std::make_unique<WorkerEndpoint>(
        workers_, options_.credentials,
        [this](const auto& from, const Message& message) { visited(from, message); });
    own_.peer = endpoint_->self();
  });
  if (failure.ok()) return;
  throw Error(Status{
      .code = failure.code,
      .message = fmt::format("[MultiWorkerMirroredStrategy] worker {}, {} ({}), cannot listen at "
                             "{}; if another process is worker {} too, give each its own index",
                             workers_.self, workers_.own().name, this_process(),
                             workers_.own().address, workers_.self),
      .origin = workers_.own().name,
      .cause = std::make_shared<const Status>(failure)});
}

std::vector<Introduction> WorkerRollCall::run() {
  const Status status = capture_status([&] { workers_.self == 0 ? lead() : follow(); });
  note_ = {};
  visitor_ = {};
  if (!status.ok()) {
    bool told = false;
    {
      const std::lock_guard lock(mutex_);
      told = told_ && workers_.self != 0;
    }
    if (!told) tell_everybody(status);
    throw Error(status);
  }
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  arrived_.clear();
  return all_;
}

void WorkerRollCall::note_loss() {
  const std::lock_guard lock(mutex_);
  is_broken_ = true;
}

// ---- The leader

void WorkerRollCall::lead() {
  visitor_ = Thread("roll call", [this](const std::stop_token& stop) { visit_missing(stop); });
  Lock lock(mutex_);
  while (problem_.ok() && !missing().empty()) {
    changed_.wait_for(lock, milliseconds(100));
    log_missing(lock);
    if (Clock::now() >= deadline_) give_up(lock);
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
    tell_who_is_missing(lock);
    lock.unlock();
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

void WorkerRollCall::tell_who_is_missing(Lock&) {
  const Message told = waiting("it waits for " + describe_missing());
  for (const auto& [id, arrival] : arrived_) {
    (void)capture_status([&] { arrival.connection->send(told); });
  }
}

void WorkerRollCall::note_failed_visit(int worker, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (may_pass(why.code)) {
    reasons_[worker] = why.message;
  } else if (problem_.ok() && !arrived_.contains(worker)) {
    problem_ = why;
    changed_.notify_all();
  }
}

void WorkerRollCall::take_hello(const std::shared_ptr<Connection>& from,
                                const Introduction& theirs) {
  const std::lock_guard lock(mutex_);
  if (is_broken_) return from->send(waiting("its group has lost a worker; it forms a new one"));
  if (is_over_) {
    return from->send(busy(fmt::format("{} ({}) trains already, with {} workers", own_.peer.name,
                                       own_.process, all_.size())));
  }
  const auto known = arrived_.find(static_cast<int>(theirs.id));
  Status found = compare(own_, theirs);
  if (found.ok() && known != arrived_.end()) found = compare(known->second.introduction, theirs);
  if (!found.ok()) {
    if (problem_.ok()) problem_ = found;
    (void)capture_status([&] { from->send(problem(found, own_.peer.name)); });
  } else if (workers_.self == 0) {
    arrived_[static_cast<int>(theirs.id)] = {theirs, from};
  }
  changed_.notify_all();
}

// ---- The others

void WorkerRollCall::follow() {
  for (;;) {
    // A leader that is there gives up first, and says who is missing.
    ask_leader(deadline_ + kLateComers);
    Lock lock(mutex_);
    if (!problem_.ok()) throw Error(problem_);
    if (!all_.empty()) return;
    log_missing(lock);
    if (Clock::now() >= deadline_) give_up(lock);
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
    reasons_[0] = status.message;
    return;
  }
  with_leader_ = visit;
  reasons_[0] = "it is there";
  while (problem_.ok() && all_.empty() && busy_.empty() && with_leader_ == visit) {
    changed_.wait_for(lock, milliseconds(100));
    log_missing(lock);
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

// ---- What comes

void WorkerRollCall::visited(const std::shared_ptr<Connection>& from, const Message& message) {
  const Status status = capture_status([&] {
    MessageReader reader(message, "an introduction");
    switch (read_kind(reader)) {
      case IntroductionKind::Hello:
        return take_hello(from, read_introduction(reader));
      case IntroductionKind::Problem:
        return take_problem(read_status(reader), true);
      default:
        return;
    }
  });
  if (status.code == Code::FailedPrecondition) take_problem(status, false);
}

void WorkerRollCall::answered(const Message& message) {
  const Status status = capture_status([&] {
    MessageReader reader(message, "an answer to an introduction");
    switch (read_kind(reader)) {
      case IntroductionKind::Welcome:
        return take_welcome(read_welcome(reader));
      case IntroductionKind::Problem:
        return take_problem(read_status(reader), true);
      case IntroductionKind::Busy: {
        const std::lock_guard lock(mutex_);
        busy_ = reader.text();
        return changed_.notify_all();
      }
      case IntroductionKind::Waiting: {
        const std::lock_guard lock(mutex_);
        reasons_[0] = reader.text();
        return;
      }
      default:
        return;
    }
  });
  if (status.code == Code::FailedPrecondition) take_problem(status, false);
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

void WorkerRollCall::take_problem(const Status& why, bool told_by_others) {
  const std::lock_guard lock(mutex_);
  if (is_over_ || !all_.empty()) {
    return log_warning("[MultiWorkerMirroredStrategy] somebody could not join this group: {}",
                       why.to_string());
  }
  if (!problem_.ok()) return;
  problem_ = why;
  told_ = told_by_others;
  changed_.notify_all();
}

// ---- Who is missing

std::vector<int> WorkerRollCall::missing() const {
  if (workers_.self != 0) return {0};
  std::vector<int> absent;
  for (int id = 1; id < workers_.size(); ++id) {
    if (!arrived_.contains(id)) absent.push_back(id);
  }
  return absent;
}

std::string WorkerRollCall::describe_missing() const {
  std::vector<std::string> texts;
  for (const int id : missing()) {
    const WorkerList::Worker& worker = workers_.workers[static_cast<size_t>(id)];
    const auto reason = reasons_.find(id);
    texts.push_back(fmt::format("{} at {}{}", worker.name, worker.address,
                                reason != reasons_.end() ? " (" + reason->second + ")" : ""));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void WorkerRollCall::note_missing() {
  const std::vector<int> absent = missing();
  if (absent == noted_) return;
  std::vector<std::string> names;
  for (const int id : absent) names.push_back(workers_.workers[static_cast<size_t>(id)].name);
  // A leader that is there may itself wait for somebody.
  const WaitKind kind = workers_.self == 0 ? WaitKind::Tensor : WaitKind::Answer;
  note_ = WaitNote(kind, "the beginning of MultiWorkerMirroredStrategy", names, began_);
  noted_ = absent;
}

void WorkerRollCall::log_missing(Lock&) {
  const auto now = Clock::now();
  if (now >= began_ + stall_patience()) note_missing();
  if (now < next_log_) return;
  next_log_ = now + (next_log_ - began_);
  log_warning("[MultiWorkerMirroredStrategy] {} has waited {:.0f} s for {}", own_.peer.name,
              std::chrono::duration<double>(now - began_).count(), describe_missing());
}

void WorkerRollCall::give_up(Lock&) {
  raise(Code::DeadlineExceeded,
        "[MultiWorkerMirroredStrategy] {}: {} did not come within {:.1f} s; start all workers of "
        "{}",
        own_.peer.name, describe_missing(),
        std::chrono::duration<double>(Clock::now() - began_).count(), workers_.cluster);
}

void WorkerRollCall::tell_everybody(const Status& why) {
  const std::string self = workers_.own().name;
  std::map<int, Arrival> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  for (int id = 0; id < workers_.size(); ++id) {
    (void)capture_status([&] {
      const auto here = arrived.find(id);
      if (here != arrived.end()) return here->second.connection->send(problem(why, self));
      const std::string& address = workers_.workers[static_cast<size_t>(id)].address;
      if (endpoint_ && address == workers_.own().address) return;
      (void)visits_->visit(address, Clock::now() + kVisitTime, problem(why, self));
    });
  }
}

}  // namespace cohort::internal
