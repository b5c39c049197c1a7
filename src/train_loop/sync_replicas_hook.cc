#include "train_loop/sync_replicas_hook.h"

#include <fmt/ranges.h>

#include "base/log.h"
#include "base/raise.h"
#include "base/waiting.h"

namespace cohort::internal {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Event = SyncMembership::Event;

namespace {

constexpr std::chrono::hours kLongerThanAnyRun(24 * 365);
constexpr milliseconds kBetweenHolds(1000);
constexpr milliseconds kBetweenLooks(500);

}  // namespace

SyncReplicasHook::SyncReplicasHook(std::shared_ptr<SyncReplicas> replicas, bool is_chief,
                                   Tensor init_tokens, Tensor restart_tokens, Limits limits)
    : replicas_(std::move(replicas)),
      is_chief_(is_chief),
      init_tokens_(std::move(init_tokens)),
      restart_tokens_(std::move(restart_tokens)),
      limits_(limits) {}

void SyncReplicasHook::after_create_session(Session& session, Coordinator& coordinator) {
  coordinator_ = &coordinator;
  const std::vector<std::string> missing =
      session.run(replicas_->ready_op()).to_vector<std::string>();
  if (!missing.empty()) {
    raise(Code::FailedPrecondition,
          "[SyncReplicas] the model is not ready for the local step, not initialised: {}",
          fmt::join(missing, ", "));
  }
  if (is_chief_) {
    start_chief(session, coordinator);
  } else {
    session.run(replicas_->local_step_init_op());
  }
  const bool was_absent = left_.exchange(false);
  if (was_absent || replicas_->worker() != SyncMembership::kAnonymous) {
    replicas_->membership().mark(session, replicas_->worker(), Event::Join);
  }
  // Also a loop that ends with an error must not keep the others waiting. The session is closed
  // only when this thread has ended.
  coordinator.start_thread("sync_replicas/leave", [this, &session, &coordinator] {
    coordinator.wait_for_stop();
    leave(session);
    release(session);
  });
  if (!replicas_->presence()) return;
  coordinator.start_thread("sync_replicas/present",
                           [this, &session, &coordinator] { stay_present(session, coordinator); });
  // One that is lost before nobody would miss.
  session.run(replicas_->presence()->held, {}, {.timeout = limits_.step_timeout});
}

void SyncReplicasHook::stay_present(Session& session, Coordinator& coordinator) {
  while (true) {
    const Status end = capture_status(
        [&] { session.run(replicas_->presence()->hold, {}, {.timeout = kLongerThanAnyRun}); });
    if (coordinator.should_stop()) return;
    if (end.ok()) continue;  // the end of an earlier session
    log_info("[SyncReplicas] being present gave {}", end.to_string());
    if (coordinator.wait_for_stop(kBetweenHolds) || left_) return;
    (void)capture_status(
        [&] { replicas_->membership().mark(session, replicas_->worker(), Event::Join); });
  }
}

void SyncReplicasHook::release(Session& session) const {
  if (!replicas_->presence()) return;
  (void)capture_status([&] { session.run(replicas_->presence()->release); });
}

// Where the register is known already, a chief was here before: it may have been lost between
// taking gradients and giving out tokens, so that everybody waits for some. At most one batch of
// each worker is then wasted.
void SyncReplicasHook::start_chief(Session& session, Coordinator& coordinator) {
  const bool restarted = session.run(replicas_->membership().is_initialized()).to<bool>();
  session.run(replicas_->chief_init_op());
  session.run(restarted ? restart_tokens_ : init_tokens_);
  replicas_->chief_runner().create_threads(session, coordinator);
  // It waits for changes, which is no stall however few there are: so it looks again now and then.
  coordinator.start_thread("sync_replicas/look", [this, &session, &coordinator] {
    while (!coordinator.wait_for_stop(kBetweenLooks)) {
      (void)capture_status([&] { session.run(replicas_->membership().poke_op()); });
    }
  });
}

SessionRunArgs SyncReplicasHook::before_run(SessionRunContext&) {
  return {.options = {.timeout = limits_.step_timeout}};
}

void SyncReplicasHook::leave(Session& session) {
  if (left_.exchange(true)) return;
  const Status status = capture_status(
      [&] { left_ = replicas_->membership().mark(session, replicas_->worker(), Event::Leave); });
  if (status.ok()) return;
  left_ = false;
  log_info("[SyncReplicas] leaving gave {}", status.to_string());
}

void SyncReplicasHook::serve_others(Session& session) {
  Backoff backoff(milliseconds(5), milliseconds(500));
  int64_t last_step = -1;
  auto deadline = steady_clock::now() + limits_.idle_limit;
  while (true) {
    if (coordinator_->should_stop()) return;  // nobody updates any more
    const std::vector<Tensor> now = session.run({replicas_->num_live(), replicas_->global_step()});
    if (now[0].to<int64_t>() <= 0) break;
    if (now[1].to<int64_t>() != last_step) deadline = steady_clock::now() + limits_.idle_limit;
    last_step = now[1].to<int64_t>();
    if (steady_clock::now() > deadline) {
      log_warning(
          "[SyncReplicas] the chief ends although {} workers have not left: they made no step in "
          "{} ms",
          now[0].to<int64_t>(), limits_.idle_limit.count());
      return;
    }
    backoff.wait();
  }
  session.run(replicas_->membership().reset_op());
}

void SyncReplicasHook::end(Session& session) {
  leave(session);
  if (is_chief_) serve_others(session);
}

}  // namespace cohort::internal
