#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/hooks.h"
#include "cohort/session.h"

// How a training program gets a session whose variables have values: the chief initialises or
// restores them, the other workers wait. Most programs use MonitoredTrainingSession or Supervisor.

namespace cohort::internal {

// SessionManagerOptions sets the checks of a SessionManager. A check is an op that returns a vector
// of strings: the reasons why the model is not ready, or none. Undefined ops are left out.
struct SessionManagerOptions {
  std::optional<Graph> graph = std::nullopt;  // nullopt: the graph being built
  Tensor ready_op = {};
  Tensor ready_for_local_init_op = {};  // needs a local_init_op (InvalidArgument)
  Tensor local_init_op = {};
  std::chrono::milliseconds recovery_wait{30'000};  // longest wait between two checks
};

// RestoreOptions sets which checkpoint to restore, and with which saver.
struct RestoreOptions {
  std::shared_ptr<SessionSaver> saver = nullptr;
  // The last good checkpoint of a directory, or one checkpoint; not both (InvalidArgument).
  std::string checkpoint_dir = {};
  std::string checkpoint_path = {};
  bool wait_for_checkpoint = false;  // until a checkpoint exists, for at most max_wait
  std::optional<std::chrono::milliseconds> max_wait = std::chrono::hours(2);  // empty: no limit
  SessionOptions config = {};
};

// InitOptions sets how the chief initialises the variables: by an op, a function, or both.
struct InitOptions {
  Tensor init_op = {};
  Feeds init_feeds = {};
  std::function<void(Session&)> init_fn = nullptr;
};

// WaitOptions sets how long a worker waits for the chief.
struct WaitOptions {
  std::optional<std::chrono::milliseconds> max_wait = std::nullopt;  // empty: no limit
  SessionOptions config = {};
};

// RecoveredSession is the result of SessionManager::recover_session().
struct RecoveredSession {
  std::unique_ptr<Session> session;
  bool initialized;  // a checkpoint was restored and the checks passed
};

// SessionManager opens sessions on a target: "" for this process, or "grpc://host:port".
//
//   SessionManager manager({.ready_op = report_uninitialized_variables()});
//   std::unique_ptr<Session> session =
//       task == 0 ? manager.prepare_session("", {.init_op = global_variables_initializer()})
//                 : manager.wait_for_session("");
class SessionManager {
 public:
  explicit SessionManager(const SessionManagerOptions& options = {});

  // For the chief. Restores a checkpoint, or else runs the init op and the init function. Then runs
  // the local init op and the checks. Throws FailedPrecondition with the reasons of a failed check,
  // or if it has neither a checkpoint nor anything to initialise with.
  std::unique_ptr<Session> prepare_session(const std::string& target, const InitOptions& init,
                                           const RestoreOptions& restore = {}) const;

  // Tries to restore a checkpoint. Tries the local init op once, even without a checkpoint.
  RecoveredSession recover_session(const std::string& target,
                                   const RestoreOptions& restore = {}) const;

  // For the other workers. Waits until the checks pass, with growing pauses between them. After 5 s
  // each failed check logs a warning with the missing variables and their devices. Replaces a
  // session that the end or restart of another task has spoiled (Unavailable, Aborted). Throws
  // DeadlineExceeded, with what is missing, if the next check would come after max_wait.
  std::unique_ptr<Session> wait_for_session(const std::string& target,
                                            const WaitOptions& options = {}) const;

 private:
  // The reason why the model is not ready; nullopt if it is.
  using Reason = std::optional<std::string>;

  std::unique_ptr<Session> open(const std::string& target, const SessionOptions& config) const;
  bool restore(Session& session, const RestoreOptions& options) const;
  Reason check(Session& session, const Tensor& op, const RunOptions& limit) const;
  Reason try_local_init(Session& session, const RunOptions& limit = {}) const;
  Reason why_not_ready(Session& session, const RunOptions& limit = {}) const;

  const SessionManagerOptions options_;
  const Graph graph_;
};

}  // namespace cohort::internal
