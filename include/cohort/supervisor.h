#pragma once

#include <map>

#include "cohort/hooks.h"
#include "cohort/internal/durations.h"

namespace cohort {

// SupervisorOptions sets what a Supervisor runs. It creates the ops that are left undefined:
// init_op initialises the global variables, local_init_op the local variables, and the ready ops
// list the variables that have no value.
struct SupervisorOptions {
  std::optional<Graph> graph = std::nullopt;  // nullopt: the graph being built
  bool is_chief = true;
  Tensor init_op = {};
  Feeds init_feeds = {};
  std::function<void(Session&)> init_fn = nullptr;
  Tensor local_init_op = {};
  Tensor ready_op = {};
  Tensor ready_for_local_init_op = {};
  std::string logdir = {};  // of the checkpoints; empty: none are written or restored
  std::shared_ptr<SessionSaver> saver = nullptr;  // nullptr: saves all variables
  std::string checkpoint_basename = "model.ckpt";
  std::shared_ptr<ScalarSink> summary_writer = nullptr;
  std::map<std::string, Tensor> summaries = {};  // scalars by tag
  // How often a thread saves a checkpoint, and how often a thread writes the summaries. Empty: no
  // such thread; 0, as in TensorFlow, is the same as empty. Throws InvalidArgument if negative.
  std::optional<std::chrono::milliseconds> save_model_interval = std::chrono::minutes(10);
  std::optional<std::chrono::milliseconds> save_summaries_interval = std::chrono::minutes(2);
  std::chrono::milliseconds recovery_wait{30'000};
  std::chrono::milliseconds stop_grace_period{120'000};
};

// SupervisedSessionOptions sets how a Supervisor opens one session.
struct SupervisedSessionOptions {
  SessionOptions config = {};
  bool wait_for_checkpoint = false;
  std::optional<std::chrono::milliseconds> max_wait = std::chrono::hours(2);  // empty: no limit
  bool start_standard_services = true;
};

// Supervisor opens a session whose variables have values, runs the helper threads of the session,
// and stops them at the end. The chief initialises or restores the variables, saves checkpoints and
// writes summaries. The other workers wait for the chief.
//
//   Tensor train_op = optimizer.minimize(loss, {}, global_step());
//   Supervisor supervisor({.is_chief = task == 0, .logdir = directory});
//   supervisor.managed_session("grpc://host:2222", [&](Session& session) {
//     while (!supervisor.should_stop()) session.run(train_op);
//   });
//
// It does not recover from the loss of a task: managed_session() throws Unavailable or Aborted.
// MonitoredTrainingSession recovers.
class Supervisor {
 public:
  // Create it when the graph is complete. Throws FailedPrecondition inside a device() scope, which
  // would place the nodes that the Supervisor adds. If it is not the chief, throws InvalidArgument,
  // "When using replicas, all Variables must have their device set", with the name of a variable
  // that has no device: each worker would have its own copy of that variable.
  explicit Supervisor(const SupervisorOptions& options = {}, Site site = Site::here());

  bool is_chief() const { return options_.is_chief; }
  Coordinator& coordinator() { return coordinator_; }
  const SupervisorOptions& options() const { return options_; }  // with the ops that were created

  // Opens a session. The chief restores a checkpoint or initialises the variables, and starts the
  // standard services. The other workers wait until the variables have values. Then starts the
  // queue runners. Starts neither services nor runners if start_standard_services is false.
  std::unique_ptr<Session> prepare_or_wait_for_session(
      const std::string& target = "", const SupervisedSessionOptions& options = {});

  // Starts the threads that save checkpoints and summaries. Only for the chief
  // (FailedPrecondition).
  CoordinatedThreads start_standard_services(Session& session);
  CoordinatedThreads start_queue_runners(Session& session);
  CoordinatedThreads start_queue_runners(Session& session, const std::vector<QueueRunner>& runners);
  // Runs `body` now and then after each `interval`, on a thread, until the stop.
  std::shared_ptr<CoordinatedThread> loop(std::chrono::milliseconds interval,
                                          std::function<void()> body);
  // Writes values at the global step. Only for a chief with a summary_writer (FailedPrecondition).
  void summary_computed(Session& session, const std::map<std::string, double>& scalars);

  bool should_stop() const { return coordinator_.should_stop(); }
  void request_stop() { coordinator_.request_stop(); }
  void request_stop(const Status& error) { coordinator_.request_stop(error); }
  // Stops and joins the threads. Throws the first error that a thread reported.
  void stop();

  // Runs `body` with a session, then stops the threads, saves a last checkpoint and closes the
  // session. OutOfRange, the end of the input, is a clean end. Any other error is rethrown after
  // the threads have ended, and no checkpoint is saved.
  void managed_session(const std::string& target, const std::function<void(Session&)>& body,
                       const SupervisedSessionOptions& options = {});

 private:
  SupervisorOptions options_;
  Graph graph_;
  Tensor global_step_;  // undefined when the graph has none
  std::shared_ptr<const internal::SessionManager> manager_;
  Coordinator coordinator_;
};

}  // namespace cohort
