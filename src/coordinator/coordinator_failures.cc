// What a coordinator does when functions fail and when workers or parameter servers are lost.

#include "coordinator/coordinator_failures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/clock.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "base/text.h"
#include "base/waiting.h"
#include "base/worker_outcomes.h"
#include "coordinator/cluster_coordinator.h"

namespace cohort::internal {
namespace {

constexpr std::string_view kPs = "/job:ps/replica:0/task:";

int from_environment(const char* name, int otherwise) {
  const std::optional<std::string> text = environment_variable(name);
  if (!text) return otherwise;
  if (const std::optional<int> value = parse_non_negative(*text)) return *value;
  log_warning("[Coordinator] {}='{}' is not a number; {} is used", name, *text, otherwise);
  return otherwise;
}

using std::chrono::steady_clock;
using Condition = ParameterServers::Condition;

bool is_away(Condition condition) {
  return condition == Condition::Gone || condition == Condition::Silent;
}

// Whether the variables are lost for certain, also if the server comes back.
bool has_lost_variables(Condition condition) {
  return condition == Condition::Restarted || condition == Condition::Gone;
}

// Returns " 'a', 'b', 'c' and 4 more".
std::string first_names(const std::vector<std::string>& variables) {
  constexpr size_t kMaxNames = 3;
  if (variables.empty()) return "";
  const std::span<const std::string> named =
      std::span(variables).first(std::min(kMaxNames, variables.size()));
  const size_t more = variables.size() - named.size();
  return fmt::format(" '{}'{}", fmt::join(named, "', '"),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

FailureLimits FailureLimits::of(int workers) {
  // The names and the defaults are those of TensorFlow's ClusterCoordinator.
  return {.ps_failures = from_environment("TF_COORDINATOR_IGNORE_TRANSIENT_PS_FAILURES", 3),
          .timeouts = from_environment("TF_COORDINATOR_IGNORE_TRANSIENT_TIMEOUTS", workers / 10)};
}

std::string parameter_server_in(const Status& status) {
  const std::string text = status.to_string();
  const size_t at = text.find(kPs);
  if (at == std::string::npos) return "";
  const size_t end = text.find_first_not_of("0123456789", at + kPs.size());
  return text.substr(at, std::min(end, text.size()) - at);
}

Status error_when_cancelling(const Status& status) {
  if (!is_loss(status.code)) return status;
  return {.code = Code::Cancelled,
          .message = "[Coordinator] the function was cancelled while it ran",
          .origin = status.origin,
          .cause = std::make_shared<const Status>(status)};
}

int Incidents::note(Time begun, Time now) {
  // The time of the try that failed is not healthy, however long the try took.
  if (begun - last_ > kHealthy) count_ = 0;
  last_ = now;
  if (count_ > 0 && begun <= noted_) return count_;
  noted_ = now;
  return ++count_;
}

FailureKind FailureClassifier::classify(const Status& status, Time begun, Time now) {
  if (is_loss(status.code)) {
    return parameter_server_in(status).empty() ? FailureKind::Worker : FailureKind::ParameterServer;
  }
  if (status.code == Code::Cancelled) return FailureKind::Transient;
  if (status.code == Code::DeadlineExceeded) {
    const std::lock_guard lock(mutex_);
    const bool forgiven = timeouts_.note(begun, now) < limits_.timeouts;
    return forgiven ? FailureKind::Transient : FailureKind::Function;
  }
  return FailureKind::Function;
}

bool FailureClassifier::is_lost(const std::string& ps, Time begun, Time now) {
  const std::lock_guard lock(mutex_);
  return ps_failures_[ps].note(begun, now) >= limits_.ps_failures;
}

Status ClusterCoordinatorState::lost_server(const std::string& ps, const Status& cause) const {
  return {.code = Code::Unavailable,
          .message = fmt::format("[Coordinator] parameter server {} is lost with its variables{}; "
                                 "start this program again and restore a checkpoint, or give "
                                 "ClusterCoordinatorOptions a `restore`",
                                 ps, first_names(extended_.variables_on(ps))),
          .origin = ps,
          .cause = std::make_shared<const Status>(cause)};
}

void ClusterCoordinatorState::update_rest(const Updates& updates, int64_t number) {
  while (true) {
    const auto begun = steady_clock::now();
    const int64_t before = number_;
    const Status status = capture_status([&] { update(updates, number); });
    if (status.ok()) return;
    if (failures_.classify(status, begun) != FailureKind::ParameterServer) throw Error(status);
    const std::string ps = parameter_server_in(status);
    const Condition condition = extended_.servers().examine(ps);
    if (condition != Condition::Sound && options_.restore) {
      recover(ps, status);
      if (number_ != before) return;  // a restore has dropped the gradients
      continue;  // the server is back with the gradients, so the update is made again
    }
    if (has_lost_variables(condition) || failures_.is_lost(ps, begun)) {
      throw Error(lost_server(ps, status));
    }
  }
}

void ClusterCoordinatorState::handle(WorkerChannel& channel, const ClosurePtr& closure,
                                     const Status& status, const Attempt& attempt) {
  if (queue_.cancelling()) return queue_.fail(closure, error_when_cancelling(status));
  // An error of a worker whose session is gone says nothing about other tasks.
  const FailureKind kind = channel.is_gone(attempt.generation)
                               ? FailureKind::Worker
                               : failures_.classify(status, attempt.begun);
  switch (kind) {
    case FailureKind::Function:
      // A restarted server may have lost the variable that has no value.
      if (status.code == Code::FailedPrecondition &&
          !extended_.servers().find_restarted().empty()) {
        return handle_lost_ps(channel, closure, status, attempt);
      }
      return queue_.fail(closure, status);
    case FailureKind::Transient:
      return queue_.put_back(closure);
    case FailureKind::Worker:
      if (std::exchange(closure->direct, closure->remote.empty()) && !closure->remote.empty()) {
        return queue_.put_back(closure);  // another worker, which had an argument, may be lost
      }
      if (channel.drop(attempt.generation, true)) {
        log_warning("[Coordinator] worker {} is lost, its functions run elsewhere: {}",
                    channel.task(), status.message);
      }
      return queue_.put_back(closure);
    case FailureKind::ParameterServer:
      return handle_lost_ps(channel, closure, status, attempt);
  }
}

void ClusterCoordinatorState::handle_lost_ps(WorkerChannel& channel, const ClosurePtr& closure,
                                             const Status& status, const Attempt& attempt) {
  std::string ps = parameter_server_in(status);
  if (ps.empty()) ps = extended_.servers().find_restarted();
  channel.drop(attempt.generation, false);
  const Condition condition = extended_.servers().examine(ps);
  log_warning("[Coordinator] {}: {}", ps, status.message);
  if (condition != Condition::Sound && options_.restore) {
    queue_.pause();
    queue_.put_back(closure);
    const Status recovery = capture_status([&] { recover(ps, status); });
    if (!recovery.ok()) queue_.report(recovery);
    queue_.resume();
  } else if (has_lost_variables(condition) || failures_.is_lost(ps, attempt.begun)) {
    queue_.fail(closure, lost_server(ps, status));
  } else {
    queue_.put_back(closure);
  }
}

void ClusterCoordinatorState::recover(const std::string& ps, const Status& why) {
  const std::lock_guard one_at_a_time(recovering_);
  const auto deadline = deadline_after(options_.ps_recovery_timeout);
  Condition condition = {};
  const auto is_decided = [&] {
    condition = extended_.servers().examine(ps);
    return !is_away(condition) || queue_.cancelling() || EndSignals::received() != 0;
  };
  (void)poll_until(deadline, is_decided, PollPolicy::every(kRetryPause));
  if (condition == Condition::Sound) return;  // another thread restored it, or the network failed
  const auto now = steady_clock::now();
  if (is_away(condition) || restores_.note(now, now) > options_.restore_limit) {
    throw Error(lost_server(ps, why));
  }
  restore(ps);
  restores_.extend(steady_clock::now());
}

void ClusterCoordinatorState::restore(const std::string& ps) {
  queue_.end_running();
  log_warning(
      "[Coordinator] parameter server {} was restarted without its variables; they are restored, "
      "and the changes that functions up to number {} made since the last save are lost",
      ps, queue_.all_done_below() - 1);
  for (const auto& channel : channels()) channel->drop(channel->generation(), false);
  extended_.servers().accept(ps);
  extended_.servers().forget_gathered();
  queue_.restart_group();
  // The restore undid the updates, so the servers must apply them again. The system clock may have
  // been set back since the last number.
  number_ = std::max(chief_number(), number_ + 1);
  const TracingForWorkers quiet;
  options_.restore();
}

}  // namespace cohort::internal
