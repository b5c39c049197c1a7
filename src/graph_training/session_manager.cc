#include "graph_training/session_manager.h"

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/time_limit.h"
#include "base/waiting.h"
#include "base/worker_outcomes.h"
#include "graph/graph_impl.h"
#include "ops/all_ops.h"

namespace cohort::internal {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstWait{50};
constexpr milliseconds kOpening{30'000};  // the longest time that opening a session takes
// After this long, each look that finds the model not ready is a warning.
constexpr milliseconds kSilentWait{5'000};
constexpr const char* kNoDevice = "without a device";

// At most a year, because runs add the result to the present time.
milliseconds time_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::clamp<milliseconds>(std::chrono::duration_cast<milliseconds>(left), milliseconds(1),
                                  std::chrono::hours(24 * 365));
}

TimeLimit timeout_of(const SessionOptions& config) {
  return given_time_limit("Session", "timeout", config.timeout);
}

// Limits runs to the deadline, or to the session's own timeout if that is earlier.
RunOptions ending_by(std::chrono::steady_clock::time_point deadline, const SessionOptions& config) {
  const milliseconds left = time_until(deadline);
  return {.timeout = std::min(timeout_of(config).value_or(left), left)};
}

// Opening a session without a timeout of its own may take longer than the deadline allows. So this
// asks first, within the deadline, whether a server answers at the target.
void find_server(const std::string& target, std::chrono::steady_clock::time_point deadline,
                 SessionOptions config) {
  if (target.empty() || time_until(deadline) > kOpening || timeout_of(config)) return;
  config.timeout = time_until(deadline);
  const Session opened(Graph(), target, config);
}

std::chrono::steady_clock::time_point end_of(const TimeLimit& max_wait) {
  if (max_wait && max_wait->count() < 0) {
    raise(Code::InvalidArgument,
          "[SessionManager] max_wait must not be negative, got {} ms; leave it empty for no limit",
          max_wait->count());
  }
  return max_wait ? deadline_after(*max_wait) : Clock::Time::max();
}

bool too_late(std::chrono::steady_clock::time_point deadline, milliseconds next_wait) {
  return std::chrono::steady_clock::now() + next_wait > deadline;
}

SessionManagerOptions checked(const SessionManagerOptions& options) {
  if (options.ready_for_local_init_op.defined() && !options.local_init_op.defined()) {
    raise(Code::InvalidArgument,
          "[SessionManager] .ready_for_local_init_op was given without a .local_init_op; give both "
          "or neither");
  }
  return options;
}

// "v (on /job:ps/task:0)". A reason that does not name a variable stays as it is.
std::string with_device(const Graph& graph, const std::string& reason) {
  const auto& impl = GraphAccess::impl(graph);
  const int node = impl->find(reason);
  if (node < 0 || impl->node(node).op != &kVariableHandle) return reason;
  const DeviceName device = device_asked_for(*impl, node);
  if (device != DeviceName()) return fmt::format("{} (on {})", reason, device.to_string());
  return fmt::format("{} ({})", reason, kNoDevice);
}

std::string place_of(const std::string& target) {
  return target.empty() ? "of this process" : fmt::format("on '{}'", target);
}

std::string remedy(const std::string& target, const std::string& reason) {
  if (target.empty() || reason.find(kNoDevice) == std::string::npos) return "";
  return "; each worker has its own copy of a variable without a device, and the chief initialises "
         "only its own copy: make the variable inside device(replica_device_setter(...))";
}

std::string described(const InitOptions& init) {
  return fmt::format("init op: {}, init function: {}", init.init_op.defined() ? "given" : "none",
                     init.init_fn ? "given" : "none");
}

void initialize(Session& session, const InitOptions& init, bool has_local_init) {
  if (!init.init_op.defined() && !init.init_fn && !has_local_init) {
    raise(Code::FailedPrecondition,
          "[SessionManager] the model is not initialised: there is no checkpoint, and no init op, "
          "init function or local init op was given");
  }
  if (init.init_op.defined()) session.run(init.init_op, init.init_feeds);
  if (init.init_fn) init.init_fn(session);
}

}  // namespace

SessionManager::SessionManager(const SessionManagerOptions& options)
    : options_(checked(options)), graph_(options.graph ? *options.graph : get_default_graph()) {}

std::unique_ptr<Session> SessionManager::open(const std::string& target,
                                              const SessionOptions& config) const {
  return std::make_unique<Session>(graph_, target, config);
}

SessionManager::Reason SessionManager::check(Session& session, const Tensor& op,
                                             const RunOptions& limit) const {
  if (!op.defined()) return std::nullopt;
  std::vector<std::string> reasons;
  const Status status =
      capture_status([&] { reasons = session.run(op, {}, limit).to_vector<std::string>(); });
  // A check may itself need a variable that is not initialised yet.
  if (status.code == Code::FailedPrecondition) return status.message;
  throw_if_error(status);
  if (reasons.empty()) return std::nullopt;
  for (std::string& reason : reasons) reason = with_device(graph_, reason);
  return fmt::format("not initialised: {}", fmt::join(reasons, ", "));
}

SessionManager::Reason SessionManager::try_local_init(Session& session,
                                                      const RunOptions& limit) const {
  if (!options_.local_init_op.defined()) return std::nullopt;
  const Reason reason = check(session, options_.ready_for_local_init_op, limit);
  if (!reason) session.run(options_.local_init_op, {}, limit);
  return reason;
}

SessionManager::Reason SessionManager::why_not_ready(Session& session,
                                                     const RunOptions& limit) const {
  return check(session, options_.ready_op, limit);
}

bool SessionManager::restore(Session& session, const RestoreOptions& options) const {
  if (!options.checkpoint_dir.empty() && !options.checkpoint_path.empty()) {
    raise(Code::InvalidArgument,
          "[SessionManager] give .checkpoint_dir or .checkpoint_path, not both ('{}' and '{}')",
          options.checkpoint_dir, options.checkpoint_path);
  }
  if (!options.saver || (options.checkpoint_dir + options.checkpoint_path).empty()) return false;
  const auto find = [&]() -> std::optional<std::string> {
    if (!options.checkpoint_path.empty()) return options.checkpoint_path;
    return options.saver->latest(options.checkpoint_dir);
  };
  std::optional<std::string> found = find();
  const auto deadline = end_of(options.max_wait);
  Backoff backoff(kFirstWait, options_.recovery_wait);
  while (!found && options.wait_for_checkpoint && !too_late(deadline, backoff.next())) {
    log_info("[SessionManager] waiting for a checkpoint in '{}'", options.checkpoint_dir);
    backoff.wait();
    found = find();
  }
  if (found) options.saver->restore(session, *found);
  return found.has_value();
}

std::unique_ptr<Session> SessionManager::prepare_session(const std::string& target,
                                                         const InitOptions& init,
                                                         const RestoreOptions& options) const {
  std::unique_ptr<Session> session = open(target, options.config);
  if (!restore(*session, options)) {
    initialize(*session, init, options_.local_init_op.defined());
  }
  if (const Reason reason = try_local_init(*session)) {
    raise(Code::FailedPrecondition,
          "[SessionManager] initialising did not make the model ready for the local init op ({}): "
          "{}",
          described(init), *reason);
  }
  if (const Reason reason = why_not_ready(*session)) {
    raise(Code::FailedPrecondition,
          "[SessionManager] initialising did not make the model ready ({}): {}", described(init),
          *reason);
  }
  return session;
}

RecoveredSession SessionManager::recover_session(const std::string& target,
                                                 const RestoreOptions& options) const {
  std::unique_ptr<Session> session = open(target, options.config);
  const bool restored = restore(*session, options);
  Reason reason = try_local_init(*session);
  if (!restored) return {std::move(session), false};
  if (!reason) reason = why_not_ready(*session);
  if (reason) {
    log_warning("[SessionManager] the checkpoint did not make the model ready: {}", *reason);
  }
  return {std::move(session), !reason};
}

std::unique_ptr<Session> SessionManager::wait_for_session(const std::string& target,
                                                          const WaitOptions& options) const {
  const auto deadline = end_of(options.max_wait);
  const auto patient_until = deadline_after(kSilentWait);
  Backoff backoff(kFirstWait, options_.recovery_wait);
  std::unique_ptr<Session> session;
  while (true) {
    Reason reason;
    const Status status = capture_status([&] {
      if (!session) {
        find_server(target, deadline, options.config);
        session = open(target, options.config);
      }
      reason = try_local_init(*session, ending_by(deadline, options.config));
      if (!reason) reason = why_not_ready(*session, ending_by(deadline, options.config));
    });
    if (status.ok() && !reason) return session;
    if (!status.ok()) {
      const bool later = is_loss(status.code) ||
                         status.code == Code::DeadlineExceeded;  // tasks that do not answer yet
      if (!later) throw Error(status);
      session = nullptr;
      reason = status.message;
    }
    if (too_late(deadline, backoff.next())) {
      raise(Code::DeadlineExceeded,
            "[SessionManager] the session {} was not ready within {} ms: {}", place_of(target),
            options.max_wait ? options.max_wait->count() : 0, *reason);
    }
    const bool patient = std::chrono::steady_clock::now() < patient_until;
    log_at(patient ? LogLevel::Info : LogLevel::Warning,
           "[SessionManager] waiting for the model {} to be ready: {}{}", place_of(target), *reason,
           remedy(target, *reason));
    backoff.wait(patient ? time_until(patient_until) : std::chrono::milliseconds::max());
  }
}

}  // namespace cohort::internal
