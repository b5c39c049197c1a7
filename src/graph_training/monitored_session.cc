#include "cohort/monitored_session.h"

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "base/site_scope.h"
#include "base/waiting.h"
#include "base/worker_outcomes.h"
#include "graph/run_request.h"
#include "tensor/body.h"

namespace cohort {
namespace internal {

struct HookedRun {
  std::vector<Tensor> results;  // of the caller's fetches
  bool stop_requested = false;
};

namespace {

MonitoredSessionOptions checked(MonitoredSessionOptions options) {
  if (std::ranges::count(options.hooks, nullptr) > 0) {
    raise(Code::InvalidArgument, "[MonitoredSession] one of the {} hooks is null; leave it out",
          options.hooks.size());
  }
  return options;
}

// Tensors are told apart by their identity. Throws InvalidArgument naming one that is fed twice.
void add_feeds(Feeds& all, const Feeds& more) {
  for (const Feed& feed : more) {
    const bool taken = std::ranges::any_of(
        all, [&](const Feed& other) { return &body(other.tensor) == &body(feed.tensor); });
    if (taken) {
      raise(Code::InvalidArgument,
            "[MonitoredSession] {} is fed twice: by a hook, and by another hook or the caller",
            feed.tensor.to_string());
    }
    all.push_back(feed);
  }
}

RunOptions merged(const RunOptions& a, const RunOptions& b) {
  return {.timeout = std::max(a.timeout, b.timeout), .trace = a.trace || b.trace};
}

std::vector<Tensor> part(const std::vector<Tensor>& values, size_t first, size_t count) {
  const auto begin = values.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

// Asks the hooks what they want, runs once with all of it, and gives each hook its values.
HookedRun run_with_hooks(Session& session, const Hooks& hooks, const std::vector<Tensor>& fetches,
                         const Feeds& feeds, const RunOptions& options, RunMetadata* metadata) {
  SessionRunContext context(fetches, feeds, session);
  std::vector<Tensor> all_fetches = fetches;
  Feeds all_feeds = feeds;
  RunOptions all_options = options;
  std::vector<size_t> counts;  // fetches of each hook
  for (const auto& hook : hooks) {
    const SessionRunArgs wanted = hook->before_run(context);
    all_fetches.insert(all_fetches.end(), wanted.fetches.begin(), wanted.fetches.end());
    add_feeds(all_feeds, wanted.feeds);
    all_options = merged(all_options, wanted.options);
    counts.push_back(wanted.fetches.size());
  }
  RunMetadata recorded;
  const std::vector<Tensor> values = session.run(all_fetches, all_feeds, all_options, &recorded);
  if (metadata != nullptr) *metadata = recorded;
  size_t next = fetches.size();
  for (size_t i = 0; i < hooks.size(); ++i) {
    hooks[i]->after_run(context, {part(values, next, counts[i]), all_options, recorded});
    next += counts[i];
  }
  return {part(values, 0, fetches.size()), context.stop_requested()};
}

}  // namespace

// A session and the threads that go with it.
struct LiveSession {
  // Declared first, so that the session outlives the threads that run in it.
  std::unique_ptr<Session> session;
  Coordinator coordinator;

  // Closes the session before it joins the threads: what their runs wait for may be gone.
  void abandon(std::chrono::milliseconds grace) {
    coordinator.request_stop();
    session->close();
    coordinator.join({.stop_grace_period = grace, .ignore_live_threads = true});
  }

  // Stops the threads and closes the session. Throws what a thread reported.
  void close(std::chrono::milliseconds grace) {
    coordinator.request_stop();
    const std::exception_ptr joined = capture_exception(
        [&] { coordinator.join({.stop_grace_period = grace, .ignore_live_threads = true}); });
    session->close();
    rethrow_if_any(joined);
  }
};

// A session with its hooks and helper threads. A lost session is replaced when it is next needed.
class MonitoredSessionImpl {
 public:
  MonitoredSessionImpl(MonitoredSessionOptions options, Site site)
      : options_(checked(std::move(options))), graph_(get_default_graph()) {
    if (!options_.session_creator)
      options_.session_creator = std::make_shared<ChiefSessionCreator>();
    prepare_graph(site);
    Graph(graph_).finalize();
    with_recovery("creating a session", [&] { (void)live(); });
  }

  ~MonitoredSessionImpl() {
    if (closed_) return;
    const Status status = capture_status([&] { close(HooksEnd::Skip); });
    if (!status.ok()) {
      log_warning("[MonitoredSession] cannot close the session: {}", status.to_string());
    }
  }

  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                          const RunOptions& options, RunMetadata* metadata) {
    check_open();
    if (stop_requested_) {
      raise(
          Code::FailedPrecondition,
          "[MonitoredSession] the session was asked to stop; check should_stop() before each run");
    }
    HookedRun done;
    with_recovery("a run", [&] {
      live().coordinator.raise_requested_exception();
      const std::exception_ptr thrown = capture_exception([&] {
        done = run_with_hooks(*live_->session, options_.hooks, fetches, feeds, options, metadata);
      });
      // A task that a helper thread has lost is the cause of the other error.
      if (thrown != nullptr && !is_loss(status_of(thrown).code)) {
        const Status helper =
            capture_status([&] { live_->coordinator.raise_requested_exception(); });
        if (is_loss(helper.code)) throw Error(helper);
      }
      rethrow_if_any(thrown);
    });
    stop_requested_ = done.stop_requested;
    return done.results;
  }

  bool should_stop() {
    if (closed_ || stop_requested_) return true;
    bool stop = false;
    with_recovery("checking whether to stop", [&] {
      live().coordinator.raise_requested_exception();
      stop = live_->coordinator.should_stop();
    });
    return stop;
  }

  enum class HooksEnd { Call, Skip };
  void close(HooksEnd hooks_end) {
    check_open();
    closed_ = true;
    const std::exception_ptr ended = capture_exception([&] {
      if (hooks_end == HooksEnd::Skip) return;
      Session& session = *live().session;
      for (const auto& hook : options_.hooks) hook->end(session);
    });
    const std::unique_ptr<LiveSession> last = std::move(live_);
    const std::exception_ptr closed = capture_exception([&] {
      if (last) last->close(options_.stop_grace_period);
    });
    rethrow_if_any(ended);
    rethrow_if_any(closed);
  }

  bool closed() const { return closed_; }
  Session& session() {
    check_open();
    with_recovery("creating a session", [&] { (void)live(); });
    return *live_->session;
  }

 private:
  // Adds the nodes of the hooks and of the session to the graph.
  void prepare_graph(Site site) {
    const SiteScope there(site);
    const UsersCode hooks;
    for (const auto& hook : options_.hooks) hook->begin();
    options_.session_creator->prepare_graph();
    for (const auto& hook : options_.hooks) hook->prepare_graph();
  }

  LiveSession& live() {
    if (!live_) live_ = create();
    return *live_;
  }

  std::unique_ptr<LiveSession> create() {
    auto live = std::make_unique<LiveSession>();
    live->session = options_.session_creator->create_session();
    const std::exception_ptr thrown = capture_exception([&] {
      start_queue_runners(graph_, *live->session, live->coordinator);
      for (const auto& hook : options_.hooks) {
        hook->after_create_session(*live->session, live->coordinator);
      }
    });
    if (thrown == nullptr) return live;
    const Status closed = capture_status([&] { live->abandon(options_.stop_grace_period); });
    if (!closed.ok()) {
      log_warning("[MonitoredSession] cannot close the session: {}", closed.to_string());
    }
    std::rethrow_exception(thrown);
  }

  // Runs `attempt` until it succeeds or fails for good, with a new session after each loss.
  void with_recovery(std::string_view what, const std::function<void()>& attempt) {
    const RecoveryOptions& recovery = options_.recovery;
    Backoff backoff(recovery.first_wait, recovery.longest_wait);
    for (int failures = 0;; ++failures) {
      const std::exception_ptr thrown = capture_exception(attempt);
      if (thrown == nullptr) return;
      const Status status = status_of(thrown);
      if (!is_loss(status.code) || recovery.max_attempts == 0) std::rethrow_exception(thrown);
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

  void drop_session() {
    if (!live_) return;
    const std::unique_ptr<LiveSession> lost = std::move(live_);
    const Status status = capture_status([&] { lost->abandon(options_.stop_grace_period); });
    if (!status.ok()) log_info("[MonitoredSession] the lost session ended with {}", status.message);
  }

  void check_open() const {
    if (closed_)
      raise(Code::FailedPrecondition, "[MonitoredSession] the session is closed; make a new one");
  }

  MonitoredSessionOptions options_;
  const Graph graph_;
  std::unique_ptr<LiveSession> live_;  // null after a loss, until the session is next needed
  bool stop_requested_ = false;
  bool closed_ = false;
};

}  // namespace internal

using Impl = internal::MonitoredSessionImpl;

MonitoredSession::MonitoredSession(const MonitoredSessionOptions& options, Site site)
    : impl_(std::make_unique<Impl>(options, site)) {}
MonitoredSession::~MonitoredSession() = default;

std::vector<Tensor> MonitoredSession::run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                          const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(fetches, feeds, options, metadata);
}

Tensor MonitoredSession::run(const Tensor& fetch, const Feeds& feeds, const RunOptions& options,
                             RunMetadata* metadata) {
  return impl_->run({fetch}, feeds, options, metadata)[0];
}

std::vector<Tensor> MonitoredSession::run(std::initializer_list<Tensor> fetches, const Feeds& feeds,
                                          const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(std::vector<Tensor>(fetches), feeds, options, metadata);
}

std::map<std::string, Tensor> MonitoredSession::run(const std::map<std::string, Tensor>& fetches,
                                                    const Feeds& feeds, const RunOptions& options,
                                                    RunMetadata* metadata) {
  return internal::run_by_name(fetches, [&](const std::vector<Tensor>& tensors) {
    return impl_->run(tensors, feeds, options, metadata);
  });
}

bool MonitoredSession::should_stop() { return impl_->should_stop(); }
void MonitoredSession::close() { impl_->close(Impl::HooksEnd::Call); }
Session& MonitoredSession::raw_session() { return impl_->session(); }

void MonitoredSession::manage(const std::function<void()>& loop) {
  const std::exception_ptr thrown = internal::capture_exception(loop);
  const bool clean = thrown == nullptr || internal::status_of(thrown).code == Code::OutOfRange;
  const std::exception_ptr closed = internal::capture_exception([&] {
    if (!impl_->closed()) impl_->close(clean ? Impl::HooksEnd::Call : Impl::HooksEnd::Skip);
  });
  if (!clean) std::rethrow_exception(thrown);
  internal::rethrow_if_any(closed);
}

}  // namespace cohort
