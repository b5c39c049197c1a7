#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cohort/hooks.h"
#include "cohort/session_manager.h"
#include "cohort/threads.h"

namespace cohort {

// Ops that are not given are made: the init op initialises the global variables, the local init op
// the local ones, and the checks ask for variables without a value.
struct SupervisorOptions {
  std::optional<Graph> graph = std::nullopt;  // nullopt: the one being built
  bool is_chief = true;
  Tensor init_op = {};
  Feeds init_feeds = {};
  std::function<void(Session&)> init_fn = nullptr;
  Tensor local_init_op = {};
  Tensor ready_op = {};
  Tensor ready_for_local_init_op = {};
  std::string logdir = {};  // where checkpoints are; empty: none are written or read
  std::shared_ptr<SessionSaver> saver = nullptr;  // nullptr: of all variables
  std::string checkpoint_basename = "model.ckpt";
  std::shared_ptr<ScalarSink> summary_writer = nullptr;
  std::map<std::string, Tensor> summaries = {};            // scalars by tag
  std::chrono::milliseconds save_model_interval{600'000};  // 0: no checkpoint thread
  std::chrono::milliseconds save_summaries_interval{120'000};
  std::chrono::milliseconds recovery_wait{30'000};
  std::chrono::milliseconds stop_grace_period{120'000};
};

struct SupervisedSessionOptions {
  SessionOptions config = {};
  bool wait_for_checkpoint = false;
  std::chrono::milliseconds max_wait{7'200'000};
  bool start_standard_services = true;
};

// The training program's chief or one of the others: gets a session whose variables have values,
// runs the threads that go with it, and stops them in the end. The chief initialises or restores,
// saves and writes summaries; the others wait for it.
//
//   Supervisor supervisor({.is_chief = task == 0, .logdir = directory, .saver = saver});
//   supervisor.managed_session(server.target(), [&](Session& session) {
//     while (!supervisor.should_stop()) session.run(train_op);
//   });
//
// It recovers nothing: an error of another task (Unavailable, Aborted) leaves managed_session. See
// MonitoredTrainingSession for that.
class Supervisor {
 public:
  // Make it when the graph is complete. Throws FailedPrecondition inside a device() scope, which
  // would move what it adds, and InvalidArgument, "When using replicas, all Variables must have
  // their device set", naming a variable without, when it is not the chief: each replica would have
  // a copy of its own.
  explicit Supervisor(const SupervisorOptions& options = {});

  bool is_chief() const { return options_.is_chief; }
  Coordinator& coordinator() { return coordinator_; }
  const SessionManager& session_manager() const { return manager_; }
  const SupervisorOptions& options() const { return options_; }  // with the ops that were made

  // Chief: as SessionManager::prepare_session, then the services. Others: wait_for_session. Then
  // the queue runners.
  std::unique_ptr<Session> prepare_or_wait_for_session(
      const std::string& target = "", const SupervisedSessionOptions& options = {});

  // Threads that save checkpoints and summaries. FailedPrecondition unless it is the chief.
  CoordinatedThreads start_standard_services(Session& session);
  CoordinatedThreads start_queue_runners(Session& session);
  CoordinatedThreads start_queue_runners(Session& session, const std::vector<QueueRunner>& runners);
  // Runs `body` every `interval` until the end.
  std::shared_ptr<CoordinatedThread> loop(std::chrono::milliseconds interval,
                                          std::function<void()> body);
  // Writes values for the global step. FailedPrecondition unless it is the chief and has a writer.
  void summary_computed(Session& session, const std::map<std::string, double>& scalars);

  bool should_stop() const { return coordinator_.should_stop(); }
  void request_stop() { coordinator_.request_stop(); }
  void request_stop(const Status& error) { coordinator_.request_stop(error); }
  // Asks the threads to stop, and waits for them: throws what the first one reported.
  void stop();

  // Runs `body` with a session and ends everything afterwards, saving a last checkpoint. The end of
  // the input (OutOfRange) is a clean end; other errors are thrown once the threads have ended.
  void managed_session(const std::string& target, const std::function<void(Session&)>& body,
                       const SupervisedSessionOptions& options = {});

 private:
  void require_chief(std::string_view what) const;
  void save(Session& session);
  void write_summaries(Session& session);

  SupervisorOptions options_;
  Graph graph_;
  Tensor global_step_;  // undefined when the graph has none
  SessionManager manager_;
  Coordinator coordinator_;
};

}  // namespace cohort
