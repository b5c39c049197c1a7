#include "train_loop/monitored_session_impl.h"

#include <algorithm>

#include "base/exceptions.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/waiting.h"
#include "train_loop/hooked_run.h"
#include "train_loop/preemption.h"

namespace cohort::internal {
namespace {

MonitoredSessionOptions checked(MonitoredSessionOptions options) {
  if (std::count(options.hooks.begin(), options.hooks.end(), nullptr) > 0) {
    raise(Code::InvalidArgument, "[MonitoredSession] one of the {} hooks is null",
          options.hooks.size());
  }
  return options;
}

}  // namespace

struct MonitoredSessionImpl::Live {
  // The coordinator ends before the session: its threads run there.
  std::unique_ptr<Session> session;
  Coordinator coordinator;

  // Ends the threads' runs with it: what they wait for may be gone.
  void abandon(std::chrono::milliseconds grace) {
    coordinator.request_stop();
    session->close();
    coordinator.join({.stop_grace_period = grace, .ignore_live_threads = true});
  }

  // Stops the threads and closes; throws what a thread reported.
  void close(std::chrono::milliseconds grace) {
    coordinator.request_stop();
    const std::exception_ptr joined = capture_exception(
        [&] { coordinator.join({.stop_grace_period = grace, .ignore_live_threads = true}); });
    session->close();
    rethrow_if_any(joined);
  }
};

MonitoredSessionImpl::MonitoredSessionImpl(MonitoredSessionOptions options)
    : options_(checked(std::move(options))), graph_(get_default_graph()) {
  if (!options_.session_creator) options_.session_creator = std::make_shared<ChiefSessionCreator>();
  for (const auto& hook : options_.hooks) hook->begin();
  options_.session_creator->prepare_graph();
  for (const auto& hook : options_.hooks) hook->prepare_graph();
  Graph(graph_).finalize();
  with_recovery("creating a session", [&] { live_ = create(); });
}

MonitoredSessionImpl::~MonitoredSessionImpl() {
  if (closed_) return;
  const Status status = capture_status([&] { close(HooksEnd::Skip); });
  if (!status.ok()) log_warning("[MonitoredSession] closing gave {}", status.to_string());
}

std::unique_ptr<MonitoredSessionImpl::Live> MonitoredSessionImpl::create() {
  auto live = std::make_unique<Live>();
  live->session = options_.session_creator->create_session();
  const std::exception_ptr thrown = capture_exception([&] {
    start_queue_runners(graph_, *live->session, live->coordinator);
    for (const auto& hook : options_.hooks) {
      hook->after_create_session(*live->session, live->coordinator);
    }
  });
  if (thrown == nullptr) return live;
  const Status closed = capture_status([&] { live->abandon(options_.stop_grace_period); });
  if (!closed.ok()) log_warning("[MonitoredSession] closing gave {}", closed.to_string());
  std::rethrow_exception(thrown);
}

void MonitoredSessionImpl::drop_session() {
  if (!live_) return;
  const std::unique_ptr<Live> lost = std::move(live_);
  const Status status = capture_status([&] { lost->abandon(options_.stop_grace_period); });
  if (!status.ok()) log_info("[MonitoredSession] the lost session ended with {}", status.message);
}

void MonitoredSessionImpl::with_recovery(std::string_view what,
                                         const std::function<void()>& attempt) {
  const RecoveryOptions& recovery = options_.recovery;
  Backoff backoff(recovery.first_wait, recovery.longest_wait);
  for (int failures = 0;; ++failures) {
    const std::exception_ptr thrown = capture_exception(attempt);
    if (thrown == nullptr) return;
    const Status status = status_of(thrown);
    if (!is_preemption(status.code) || recovery.max_attempts == 0) std::rethrow_exception(thrown);
    drop_session();
    if (failures == recovery.max_attempts) {
      throw Error(Status{.code = status.code,
                         .message = fmt::format("[MonitoredSession] {} failed {} times in a row",
                                                what, failures + 1),
                         .origin = status.origin,
                         .cause = std::make_shared<Status>(status)});
    }
    log_warning("[MonitoredSession] {} failed and is tried again in {} ms: {}", what,
                backoff.next().count(), status.to_string());
    backoff.wait();
  }
}

void MonitoredSessionImpl::check_open() const {
  if (closed_) raise(Code::FailedPrecondition, "[MonitoredSession] the session is closed");
}

Session& MonitoredSessionImpl::session() {
  check_open();
  with_recovery("creating a session", [&] {
    if (!live_) live_ = create();
  });
  return *live_->session;
}

std::vector<Tensor> MonitoredSessionImpl::run(const std::vector<Tensor>& fetches,
                                              const Feeds& feeds, const RunOptions& options,
                                              RunMetadata* metadata) {
  check_open();
  if (stop_requested_) {
    raise(Code::FailedPrecondition,
          "[MonitoredSession] it was asked to stop; look at should_stop() before each run");
  }
  HookedRun done;
  with_recovery("a run", [&] {
    if (!live_) live_ = create();
    live_->coordinator.raise_requested_exception();
    const std::exception_ptr thrown = capture_exception([&] {
      done = run_with_hooks(*live_->session, options_.hooks, fetches, feeds, options, metadata);
    });
    // What a helper thread reports is the cause when it lost another task.
    if (thrown != nullptr && !is_preemption(status_of(thrown).code)) {
      const Status helper = capture_status([&] { live_->coordinator.raise_requested_exception(); });
      if (is_preemption(helper.code)) throw Error(helper);
    }
    rethrow_if_any(thrown);
  });
  stop_requested_ = done.stop_requested;
  return done.results;
}

bool MonitoredSessionImpl::should_stop() {
  if (closed_ || stop_requested_) return true;
  bool stop = false;
  with_recovery("looking whether to stop", [&] {
    if (!live_) live_ = create();
    live_->coordinator.raise_requested_exception();
    stop = live_->coordinator.should_stop();
  });
  return stop;
}

void MonitoredSessionImpl::close(HooksEnd hooks_end) {
  check_open();
  closed_ = true;
  const std::exception_ptr ended = capture_exception([&] {
    if (hooks_end == HooksEnd::Skip) return;
    if (!live_) live_ = create();
    for (const auto& hook : options_.hooks) hook->end(*live_->session);
  });
  const std::unique_ptr<Live> last = std::move(live_);
  const std::exception_ptr closed = capture_exception([&] {
    if (last) last->close(options_.stop_grace_period);
  });
  rethrow_if_any(ended);
  rethrow_if_any(closed);
}

}  // namespace cohort::internal
