#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/hooks.h"
#include "cohort/session.h"

// How a training program gets a session whose variables have values: the chief gives them theirs,
// the others wait for that.

namespace cohort {

// A check is an op that gives a vector of strings: empty when all is ready, else the reasons why
// not. Ops that are not given are undefined tensors.
struct SessionManagerOptions {
  std::optional<Graph> graph = std::nullopt;  // nullopt: the one being built
  Tensor ready_op = {};
  Tensor ready_for_local_init_op = {};  // needs a local_init_op (InvalidArgument)
  Tensor local_init_op = {};
  std::chrono::milliseconds recovery_wait{30'000};  // between looks, at most
};

struct RestoreOptions {
  std::shared_ptr<SessionSaver> saver = nullptr;
  // At most one of the two (InvalidArgument): the last good checkpoint there, or this one.
  std::string checkpoint_dir = {};
  std::string checkpoint_path = {};
  bool wait_for_checkpoint = false;  // until there is one, but not longer than max_wait
  std::chrono::milliseconds max_wait{7'200'000};
  SessionOptions config = {};
};

struct InitOptions {
  Tensor init_op = {};
  Feeds init_feeds = {};
  std::function<void(Session&)> init_fn = nullptr;
};

struct WaitOptions {
  std::chrono::milliseconds max_wait = std::chrono::milliseconds::max();  // max: for ever
  SessionOptions config = {};
};

struct RecoveredSession {
  std::unique_ptr<Session> session;
  bool initialized;  // a checkpoint was restored and the checks passed
};

// Makes sessions on a target: "" in this process, or "grpc://host:port".
class SessionManager {
 public:
  explicit SessionManager(const SessionManagerOptions& options = {});

  // For the chief: restores a checkpoint, or else runs the init op and the init function; then runs
  // the local init op and the checks. Throws FailedPrecondition, quoting the reasons that a check
  // gives, or when it has nothing to initialise with.
  std::unique_ptr<Session> prepare_session(const std::string& target, const InitOptions& init,
                                           const RestoreOptions& restore = {}) const;

  // Tries to restore a checkpoint; the local init op is tried once in any case.
  RecoveredSession recover_session(const std::string& target,
                                   const RestoreOptions& restore = {}) const;

  // For all others: waits until the checks pass, looking ever less often. After 5 s each look logs
  // a warning with what is missing: variables come with their devices. A session that another
  // task's end or restart spoils (Unavailable, Aborted) is replaced. Throws DeadlineExceeded, with
  // what is missing, when the next look would be too late.
  std::unique_ptr<Session> wait_for_session(const std::string& target,
                                            const WaitOptions& options = {}) const;

 private:
  // Why not yet; nullopt when ready.
  using Reason = std::optional<std::string>;

  std::unique_ptr<Session> open(const std::string& target, const SessionOptions& config) const;
  bool restore(Session& session, const RestoreOptions& options) const;
  Reason check(Session& session, const Tensor& op, const RunOptions& limit) const;
  Reason try_local_init(Session& session, const RunOptions& limit = {}) const;
  Reason why_not_ready(Session& session, const RunOptions& limit = {}) const;

  const SessionManagerOptions options_;
  const Graph graph_;
};

}  // namespace cohort
