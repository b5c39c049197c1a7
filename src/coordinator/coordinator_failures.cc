// What a coordinator does about functions that fail, and about workers and parameter servers that
// are lost.

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/waiting.h"
#include "coordinator/coordinator_state.h"

namespace cohort::internal {
namespace {

using Clock = std::chrono::steady_clock;
using Condition = ParameterServers::Condition;

bool is_away(Condition condition) {
  return condition == Condition::Gone || condition == Condition::Silent;
}

// What it had is gone for certain, whether it comes back or not.
bool has_lost_variables(Condition condition) {
  return condition == Condition::Restarted || condition == Condition::Gone;
}

Status lost_server(const std::string& ps, const Status& cause) {
  return {.code = Code::Unavailable,
          .message = fmt::format("[Coordinator] parameter server {} is lost with its variables; "
                                 "start this program again and restore a checkpoint, or give "
                                 "ClusterCoordinatorOptions a `restore`",
                                 ps),
          .origin = ps,
          .cause = std::make_shared<const Status>(cause)};
}

}  // namespace

void ClusterCoordinatorState::update_rest(const Updates& updates, int64_t number) {
  while (true) {
    const auto begun = Clock::now();
    const int64_t before = number_;
    const Status status = capture_status([&] { update(updates, number); });
    if (status.ok()) return;
    if (failures_.classify(status, begun) != FailureKind::ParameterServer) throw Error(status);
    const std::string ps = parameter_server_in(status);
    const Condition condition = extended_.servers().examine(ps);
    if (condition != Condition::Sound && options_.restore) {
      recover(ps, status);
      if (number_ != before) return;  // a restore has dropped the gradients
      continue;  // the server is back with them, and the update is still to be made
    }
    if (has_lost_variables(condition) || failures_.is_lost(ps, begun)) {
      throw Error(lost_server(ps, status));
    }
  }
}

void ClusterCoordinatorState::handle(WorkerChannel& channel, const ClosurePtr& closure,
                                     const Status& status, const Attempt& attempt) {
  if (queue_.cancelling()) return queue_.fail(closure, told_when_cancelling(status));
  // What a worker says that is about to go, or nobody could ask, tells nothing of anybody else.
  const FailureKind kind = channel.is_gone(attempt.generation)
                               ? FailureKind::Worker
                               : failures_.classify(status, attempt.begun);
  switch (kind) {
    case FailureKind::Function:
      // A variable without value may be one that a server had before it was restarted.
      if (status.code == Code::FailedPrecondition &&
          !extended_.servers().find_restarted().empty()) {
        return handle_lost_ps(channel, closure, status, attempt);
      }
      return queue_.fail(closure, status);
    case FailureKind::Transient:
      return queue_.put_back(closure);
    case FailureKind::Worker:
      if (std::exchange(closure->direct, closure->remote.empty()) && !closure->remote.empty()) {
        return queue_.put_back(closure);  // perhaps it was another worker that had an argument
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
  const auto deadline = Clock::now() + options_.ps_recovery_timeout;
  Condition condition = extended_.servers().examine(ps);
  while (is_away(condition) && Clock::now() < deadline && !queue_.cancelling()) {
    sleep_for(kRetryPause);
    condition = extended_.servers().examine(ps);
  }
  if (condition == Condition::Sound) return;  // somebody else did it, or only the network failed
  const auto now = Clock::now();
  if (is_away(condition) || restores_.note(now, now) > options_.restore_limit) {
    throw Error(lost_server(ps, why));
  }
  restore(ps);
  restores_.extend(Clock::now());
}

void ClusterCoordinatorState::restore(const std::string& ps) {
  queue_.end_running();
  log_warning(
      "[Coordinator] parameter server {} was restarted without its variables; they are restored, "
      "and what functions up to number {} have changed since they were saved is lost",
      ps, queue_.all_done_below() - 1);
  for (const auto& channel : channels()) channel->drop(channel->generation(), false);
  extended_.servers().accept(ps);
  extended_.servers().forget_gathered();
  queue_.restart_group();
  // The restore undid the updates, so the servers must apply them again. The system clock may have
  // been set back since the last number.
  number_ = std::max(new_number(), number_ + 1);
  const TracingForWorkers quiet;
  options_.restore();
}

}  // namespace cohort::internal
