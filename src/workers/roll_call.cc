#include "workers/roll_call.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/raise.h"
#include "collectives/group.h"
#include "transport/status_message.h"
#include "workers/roll_call_times.h"

namespace cohort::internal {

WorkerRollCall::WorkerRollCall(WorkerList workers, Options options)
    : workers_(std::move(workers)),
      options_(std::move(options)),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.timeout)),
      absent_(workers_) {
  visits_ = std::make_unique<Visits>(
      options_.credentials,
      Visits::Events{.answered = [this](const Message& message) { answered(message); },
                     .ended = [this](const auto& visit, const Status&) { ended(visit); }});
  const Status status = capture_status([&] { listen(); });
  if (status.ok()) return;
  broadcast_error(status);
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
  absent_.end_wait();
  visitor_ = {};
  if (!status.ok()) {
    bool told = false;
    {
      const std::lock_guard lock(mutex_);
      told = told_ && workers_.self != 0;
    }
    if (!told) broadcast_error(status);
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
        absent_.set_reason(0, std::string(reader.text()));
        return;
      }
      default:
        return;
    }
  });
  if (status.code == Code::FailedPrecondition) take_problem(status, false);
}

void WorkerRollCall::take_problem(const Status& why, bool told_by_others) {
  const std::lock_guard lock(mutex_);
  if (is_over_ || !all_.empty()) {
    return rare_log_.warning(
        "[MultiWorkerMirroredStrategy] a process could not join this group: {}", why.to_string());
  }
  if (!problem_.ok()) return;
  problem_ = why;
  told_ = told_by_others;
  changed_.notify_all();
}

std::vector<int> WorkerRollCall::missing() const {
  if (workers_.self != 0) return {0};
  std::vector<int> absent;
  for (int id = 1; id < workers_.size(); ++id) {
    if (!arrived_.contains(id)) absent.push_back(id);
  }
  return absent;
}

void WorkerRollCall::broadcast_error(const Status& why) {
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
