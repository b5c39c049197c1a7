#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/hooks.h"
#include "cohort/session_manager.h"

// Training loops that survive what can be survived: a session that runs hooks around each step,
// hears of the errors of helper threads, and is made anew when another task was lost.

namespace cohort {

// What makes the model ready. Ops that are not given are made when the session is: the init op
// initialises the global variables, the local init op the local ones, and the checks ask for
// variables without a value.
struct Scaffold {
  Tensor init_op = {};
  Feeds init_feeds = {};
  std::function<void(Session&)> init_fn = nullptr;
  Tensor local_init_op = {};
  Tensor ready_op = {};
  Tensor ready_for_local_init_op = {};
  std::shared_ptr<SessionSaver> saver = nullptr;

  // Makes those ops in the graph being built.
  void finalize();
};

// Makes sessions, again and again when they get lost.
class SessionCreator {
 public:
  virtual ~SessionCreator() = default;
  // Once, while the graph may still grow.
  virtual void prepare_graph() {}
  virtual std::unique_ptr<Session> create_session() = 0;
};

struct SessionCreatorOptions {
  Scaffold scaffold = {};
  std::string master = {};  // the target: "" or "grpc://host:port"
  SessionOptions config = {};
  // Chief: at most one of the two.
  std::string checkpoint_dir = {};
  std::string checkpoint_path = {};
  // Worker:
  std::chrono::milliseconds max_wait{1'800'000};
  std::chrono::milliseconds recovery_wait{30'000};
};

// Restores the last checkpoint, or initialises.
class ChiefSessionCreator : public SessionCreator {
 public:
  explicit ChiefSessionCreator(const SessionCreatorOptions& options = {});
  void prepare_graph() override;
  std::unique_ptr<Session> create_session() override;

 private:
  SessionCreatorOptions options_;
  std::optional<SessionManager> manager_;
};

// Waits until the chief has initialised.
class WorkerSessionCreator : public SessionCreator {
 public:
  explicit WorkerSessionCreator(const SessionCreatorOptions& options = {});
  void prepare_graph() override;
  std::unique_ptr<Session> create_session() override;

 private:
  SessionCreatorOptions options_;
  std::optional<SessionManager> manager_;
};

// What to do when another task is lost (Aborted, Unavailable): close the session, make a new one
// and run again, so that a step may happen twice.
struct RecoveryOptions {
  // How often in a row, without a run that succeeds; then the error is thrown. 0: never.
  int max_attempts = 10;
  // Waits between attempts double from the first to the longest.
  std::chrono::milliseconds first_wait{500};
  std::chrono::milliseconds longest_wait{30'000};
};

struct MonitoredSessionOptions {
  std::shared_ptr<SessionCreator> session_creator = nullptr;  // nullptr: a ChiefSessionCreator
  Hooks hooks = {};                                           // none of them null (InvalidArgument)
  std::chrono::milliseconds stop_grace_period{120'000};
  RecoveryOptions recovery = {};
};

// Ends the loop of MonitoredSession::manage() as the end of the input does.
class StopIteration : public Error {
 public:
  StopIteration() : Error(Code::OutOfRange, "[StopIteration] the program ends its loop") {}
};

namespace internal {
class MonitoredSessionImpl;
}

// A session with hooks. It is made in this order: the hooks' begin(), the graph is finalised, the
// session is made, its queue runners start, the hooks' after_create_session().
//
//   MonitoredTrainingSession session({.hooks = {stop_at_1000}});
//   session.manage([&] {
//     while (!session.should_stop()) session.run(train_op);
//   });
//
// Use it from one thread.
class MonitoredSession {
 public:
  explicit MonitoredSession(const MonitoredSessionOptions& options = {});
  // Closes it without the hooks' end(), unless it is closed; logs what goes wrong.
  virtual ~MonitoredSession();
  MonitoredSession(const MonitoredSession&) = delete;
  MonitoredSession& operator=(const MonitoredSession&) = delete;

  // As Session::run, together with what the hooks want. A tensor that is fed by two of them, or by
  // one and the caller, is InvalidArgument; running after should_stop() or close() is
  // FailedPrecondition. Throws what a helper thread reported.
  Tensor run(const Tensor& fetch, const Feeds& feeds = {}, const RunOptions& options = {},
             RunMetadata* metadata = nullptr);
  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  std::vector<Tensor> run(std::initializer_list<Tensor> fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& fetches,
                                    const Feeds& feeds = {}, const RunOptions& options = {},
                                    RunMetadata* metadata = nullptr);

  // Whether the loop is to end: a hook or a helper thread asked for it, or it is closed. Throws
  // what a helper thread reported.
  bool should_stop();
  // Calls the hooks' end(), stops the helper threads, waits for them, and closes the session.
  // FailedPrecondition when it is closed.
  void close();

  // Runs `loop`, then closes. OutOfRange and StopIteration are a clean end; after other errors the
  // hooks' end() is not called, and the error is thrown on.
  void manage(const std::function<void()>& loop);

  // The session of now, for what hooks are not to see. FailedPrecondition when it is closed.
  Session& raw_session();

 private:
  std::unique_ptr<internal::MonitoredSessionImpl> impl_;
};

// The same without recovery: every error is thrown.
class SingularMonitoredSession : public MonitoredSession {
 public:
  explicit SingularMonitoredSession(const MonitoredSessionOptions& options = {});
};

struct MonitoredTrainingSessionOptions {
  std::string master = {};
  bool is_chief = true;
  std::string checkpoint_dir = {};  // empty: nothing is saved or restored
  Scaffold scaffold = {};
  Hooks hooks = {};
  Hooks chief_only_hooks = {};
  // Checkpoints: by default every 600 s; {} writes none. Needs a checkpoint_dir; without a
  // scaffold.saver all variables are saved.
  Every save_checkpoint = {.secs = 600};
  std::shared_ptr<ScalarSink> summary_writer = nullptr;
  std::map<std::string, Tensor> summaries = {};       // scalars by tag
  Every save_summaries = {.steps = 100};              // {}: none
  std::optional<int64_t> log_step_count_steps = 100;  // nullopt: not
  std::chrono::milliseconds stop_grace_period{120'000};
  std::chrono::milliseconds max_wait{7'200'000};  // of a worker for the chief
  RecoveryOptions recovery = {};
  SessionOptions config = {};
};

// What most programs want: the chief initialises or restores, saves checkpoints and summaries and
// logs steps per second; the others wait for it.
class MonitoredTrainingSession : public MonitoredSession {
 public:
  explicit MonitoredTrainingSession(const MonitoredTrainingSessionOptions& options = {});
};

}  // namespace cohort
