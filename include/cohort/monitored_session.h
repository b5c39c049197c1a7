#pragma once

#include <map>

#include "cohort/hooks.h"
#include "cohort/internal/durations.h"

// Training loops that recover from lost tasks: a MonitoredSession runs hooks around each step,
// reports errors of helper threads, and creates a new session if another task is lost.

namespace cohort {

// Scaffold holds the ops and functions that make a model ready to train. An op that is left
// undefined is created with the session: init_op initialises the global variables, local_init_op
// the local variables, and the ready ops list the variables that have no value.
struct Scaffold {
  Tensor init_op = {};
  Feeds init_feeds = {};
  std::function<void(Session&)> init_fn = nullptr;
  Tensor local_init_op = {};
  Tensor ready_op = {};
  Tensor ready_for_local_init_op = {};
  std::shared_ptr<SessionSaver> saver = nullptr;

  // Creates the missing ops in the graph being built.
  void finalize(Site site = Site::here());
};

// SessionCreator creates the sessions of a MonitoredSession: the first, and one after each loss.
class SessionCreator {
 public:
  virtual ~SessionCreator() = default;
  // Called once, while the graph may still grow.
  virtual void prepare_graph() {}
  virtual std::unique_ptr<Session> create_session() = 0;
};

// SessionCreatorOptions sets how a session is opened and how its variables get values.
struct SessionCreatorOptions {
  Scaffold scaffold = {};
  std::string master = {};  // the target: "" or "grpc://host:port"
  SessionOptions config = {};
  // For the chief: what to restore. At most one of the two may be set (InvalidArgument).
  std::string checkpoint_dir = {};
  std::string checkpoint_path = {};
  // For other workers: how long to wait for the chief, and how long between two checks at most.
  std::optional<std::chrono::milliseconds> max_wait = std::chrono::minutes(30);  // empty: no limit
  std::chrono::milliseconds recovery_wait{30'000};
};

// ChiefSessionCreator restores a checkpoint, or else initialises the variables.
class ChiefSessionCreator : public SessionCreator {
 public:
  explicit ChiefSessionCreator(const SessionCreatorOptions& options = {});
  void prepare_graph() override;
  std::unique_ptr<Session> create_session() override;

 private:
  SessionCreatorOptions options_;
  std::shared_ptr<const internal::SessionManager> manager_;
};

// WorkerSessionCreator waits until the chief has initialised the variables.
class WorkerSessionCreator : public SessionCreator {
 public:
  explicit WorkerSessionCreator(const SessionCreatorOptions& options = {});
  void prepare_graph() override;
  std::unique_ptr<Session> create_session() override;

 private:
  SessionCreatorOptions options_;
  std::shared_ptr<const internal::SessionManager> manager_;
};

// RecoveryOptions sets what happens if another task is lost (Aborted, Unavailable). The
// MonitoredSession closes its session, creates a new one and runs again, so a step may run twice.
struct RecoveryOptions {
  // How many recoveries in a row, without a successful run, are tried. 0 disables recovery.
  int max_attempts = 10;
  // The wait before each new attempt. It doubles from the first wait to the longest.
  std::chrono::milliseconds first_wait{500};
  std::chrono::milliseconds longest_wait{30'000};
};

// MonitoredSessionOptions sets the hooks of a MonitoredSession and how it creates sessions.
struct MonitoredSessionOptions {
  std::shared_ptr<SessionCreator> session_creator = nullptr;  // nullptr: a ChiefSessionCreator
  Hooks hooks = {};                                           // a null hook is InvalidArgument
  // How long close() waits for helper threads.
  std::chrono::milliseconds stop_grace_period{120'000};
  RecoveryOptions recovery = {};
};

// StopIteration ends the loop of MonitoredSession::manage(), as the end of the input does.
class StopIteration : public Error {
 public:
  StopIteration() : Error(Code::OutOfRange, "[StopIteration] the program ends its loop") {}
};

// MonitoredSession is a session that runs hooks around each run and recovers from lost tasks.
//
//   Tensor train_op = optimizer.minimize(loss, {}, global_step());
//   MonitoredTrainingSession session({.checkpoint_dir = directory});
//   session.manage([&] {
//     while (!session.should_stop()) session.run(train_op);
//   });
//
// The constructor calls begin() of the hooks, finalises the graph being built, creates the session,
// starts its queue runners and calls after_create_session() of the hooks. Use it from one thread.
class MonitoredSession {
 public:
  explicit MonitoredSession(const MonitoredSessionOptions& options = {}, Site site = Site::here());
  // Closes the session without calling end() of the hooks, and logs errors.
  virtual ~MonitoredSession();
  MonitoredSession(const MonitoredSession&) = delete;
  MonitoredSession& operator=(const MonitoredSession&) = delete;

  // Runs like Session::run(), with the fetches and feeds of the hooks. Throws InvalidArgument if a
  // tensor is fed twice, by hooks or the caller; FailedPrecondition after close() or a requested
  // stop; and the error that a helper thread reported.
  Tensor run(const Tensor& fetch, const Feeds& feeds = {}, const RunOptions& options = {},
             RunMetadata* metadata = nullptr);
  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  std::vector<Tensor> run(std::initializer_list<Tensor> fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& fetches,
                                    const Feeds& feeds = {}, const RunOptions& options = {},
                                    RunMetadata* metadata = nullptr);

  // Returns true if a hook or helper thread requested a stop, or after close(). Throws the error
  // that a helper thread reported.
  bool should_stop();
  // Calls end() of the hooks, stops and joins the helper threads, and closes the session. A second
  // call throws FailedPrecondition.
  void close();

  // Calls `loop`, then closes the session. OutOfRange and StopIteration end the loop cleanly. After
  // any other error the hooks' end() is not called, and the error is rethrown.
  void manage(const std::function<void()>& loop);

  // Returns the current session, for runs without hooks. Throws FailedPrecondition if it is closed.
  Session& raw_session();

 private:
  std::unique_ptr<internal::MonitoredSessionImpl> impl_;
};

// SingularMonitoredSession is a MonitoredSession that does not recover: it throws every error.
class SingularMonitoredSession : public MonitoredSession {
 public:
  explicit SingularMonitoredSession(const MonitoredSessionOptions& options = {},
                                    Site site = Site::here());
};

// MonitoredTrainingSessionOptions sets what a MonitoredTrainingSession does around the loop.
struct MonitoredTrainingSessionOptions {
  std::string master = {};
  bool is_chief = true;
  std::string checkpoint_dir = {};  // empty: nothing is saved or restored
  Scaffold scaffold = {};
  Hooks hooks = {};
  Hooks chief_only_hooks = {};
  // How often to save; {} saves none. Needs a checkpoint_dir. The default saver saves all
  // variables.
  Every save_checkpoint = {.time = std::chrono::minutes(10)};
  std::shared_ptr<ScalarSink> summary_writer = nullptr;
  std::map<std::string, Tensor> summaries = {};       // scalars by tag
  Every save_summaries = {.steps = 100};              // {}: none
  std::optional<int64_t> log_step_count_steps = 100;  // nullopt: not logged
  std::chrono::milliseconds stop_grace_period{120'000};
  // How long a worker waits for the chief. Empty: no limit.
  std::optional<std::chrono::milliseconds> max_wait = std::chrono::hours(2);
  RecoveryOptions recovery = {};
  SessionOptions config = {};
};

// MonitoredTrainingSession is the MonitoredSession that most programs use. The chief restores or
// initialises the variables, saves checkpoints and summaries and logs the steps per second. The
// other workers wait for the chief.
class MonitoredTrainingSession : public MonitoredSession {
 public:
  explicit MonitoredTrainingSession(const MonitoredTrainingSessionOptions& options = {},
                                    Site site = Site::here());
};

}  // namespace cohort
