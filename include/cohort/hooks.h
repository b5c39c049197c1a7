#pragma once

#include <map>

#include "cohort/checkpoint.h"
#include "cohort/graph_variable.h"
#include "cohort/internal/durations.h"
#include "cohort/internal/owned.h"
#include "cohort/summary.h"
#include "cohort/threads.h"

// Hooks act before and after each run of a MonitoredSession. This header has the interface and the
// hooks that most programs use. A hook that counts steps needs a global_step() in the graph:
// without it, begin() throws FailedPrecondition.

namespace cohort {

// SessionRunArgs is what a hook adds to a run.
struct SessionRunArgs {
  std::vector<Tensor> fetches = {};
  Feeds feeds = {};
  RunOptions options = {};  // merged: the longest timeout, a trace if requested
};

// SessionRunValues is what a hook receives after the run.
struct SessionRunValues {
  std::vector<Tensor> results;  // one for each fetch of this hook
  RunOptions options;           // as merged for this run
  RunMetadata metadata;         // filled if the run was traced
};

// SessionRunContext describes the current run: what the caller fetches and feeds, and the session.
class SessionRunContext {
 public:
  SessionRunContext(const std::vector<Tensor>& fetches, const Feeds& feeds, Session& session)
      : fetches_(fetches), feeds_(feeds), session_(session) {}

  const std::vector<Tensor>& original_fetches() const { return fetches_; }
  const Feeds& original_feeds() const { return feeds_; }
  Session& session() const { return session_; }
  // Ends the training loop after this run.
  void request_stop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  const std::vector<Tensor>& fetches_;
  const Feeds& feeds_;
  Session& session_;
  bool stop_requested_ = false;
};

// SessionRunHook acts before and after each run of a MonitoredSession. Derive from it to write one:
//
//   class StopWhenGood : public SessionRunHook {
//     void begin() override { loss_ = get_default_graph().tensor("loss"); }
//     SessionRunArgs before_run(SessionRunContext&) override { return {.fetches = {loss_}}; }
//     void after_run(SessionRunContext& context, const SessionRunValues& values) override {
//       if (values.results[0].to<float>() < 0.1f) context.request_stop();
//     }
//     Tensor loss_;
//   };
//
// The session calls the hooks in the order of the list, on the thread that calls run().
class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;
  // Called once, before the graph is finalised. The hook may add variables.
  virtual void begin() {}
  // Called once, after begin() of every hook. The graph has all its variables, but may still grow.
  virtual void prepare_graph() {}
  // Called after each creation of a session, including each recovery.
  virtual void after_create_session(Session& /*session*/, Coordinator& /*coordinator*/) {}
  virtual SessionRunArgs before_run(SessionRunContext& /*context*/) { return {}; }
  // Not called if the run throws.
  virtual void after_run(SessionRunContext& /*context*/, const SessionRunValues& /*values*/) {}
  // Called once, if the loop ends without an error.
  virtual void end(Session& /*session*/) {}
};
using Hooks = std::vector<std::shared_ptr<SessionRunHook>>;

// SessionSaver writes the variables of a session to files and reads them back. Thread-safe.
class SessionSaver {
 public:
  virtual ~SessionSaver() = default;
  // Writes "prefix-step" and returns its path, which latest() then finds.
  virtual std::string save(Session& session, const std::string& prefix, int64_t step) = 0;
  virtual void restore(Session& session, const std::string& path) = 0;
  // Returns the path of the last good checkpoint in the directory.
  virtual std::optional<std::string> latest(const std::string& directory) = 0;
  // Called before the other functions, while the graph may still grow; perhaps more than once.
  virtual void prepare_graph() {}
};
// Returns a SessionSaver that saves all variables that the graph has at prepare_graph(), see Saver.
std::shared_ptr<SessionSaver> make_session_saver(const SaverOptions& options = {},
                                                 Site site = Site::here());

namespace internal {
// DelegatingHook passes each call on to the hook that it is made of. The hooks below derive from
// it, so that their state and code are in a .cc file.
class DelegatingHook : public SessionRunHook {
 public:
  void begin() override;
  void prepare_graph() override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;
  void end(Session& session) override;

 protected:
  explicit DelegatingHook(std::unique_ptr<SessionRunHook> hook);

 private:
  const Owned<SessionRunHook> hook_;
};
}  // namespace internal

// ---- Hooks that stop

// StopAtStepOptions sets the last step. Exactly one of the fields must be set (InvalidArgument).
struct StopAtStepOptions {
  std::optional<int64_t> num_steps = std::nullopt;  // after the global step at the first session
  std::optional<int64_t> last_step = std::nullopt;
};
// StopAtStepHook ends the loop when the global step reaches the last step.
//
//   MonitoredTrainingSession session(
//       {.hooks = {std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = 1000}),
//                  std::make_shared<NanTensorHook>(loss)}});
class StopAtStepHook : public internal::DelegatingHook {
 public:
  explicit StopAtStepHook(const StopAtStepOptions& options);
};

// OnNan sets what NanTensorHook does when the loss is NaN.
enum class OnNan {
  Throw,  // throws InvalidArgument
  Stop,   // logs a warning and ends the loop
};
// NanTensorHook checks after each run whether a loss is NaN.
class NanTensorHook : public internal::DelegatingHook {
 public:
  explicit NanTensorHook(Tensor loss, OnNan action = OnNan::Throw);
};

// ---- Hooks that act at intervals

// Every is an interval between actions. Exactly one of the fields must be set; steps must be
// positive, and the time not negative (InvalidArgument).
struct Every {
  std::optional<int64_t> steps = std::nullopt;
  std::optional<std::chrono::milliseconds> time = std::nullopt;
};

// CheckpointSaverOptions sets where and how often a CheckpointSaverHook saves.
struct CheckpointSaverOptions {
  std::string checkpoint_dir = {};
  Every every = {.time = std::chrono::minutes(10)};
  std::shared_ptr<SessionSaver> saver = nullptr;  // nullptr: make_session_saver()
  std::string basename = "model.ckpt";
};
// CheckpointSaverHook saves the variables after the creation of the session, then at each interval,
// and at the end unless the last step is already saved.
class CheckpointSaverHook : public internal::DelegatingHook {
 public:
  // Throws InvalidArgument if checkpoint_dir is empty.
  explicit CheckpointSaverHook(const CheckpointSaverOptions& options);
};

// StepCounterOptions sets how often a StepCounterHook reports.
struct StepCounterOptions {
  Every every = {.steps = 100};
  std::shared_ptr<ScalarSink> summary_writer = nullptr;  // receives "global_step/sec"
};
// StepCounterHook logs the number of steps per second, at level info, and writes it as a summary.
class StepCounterHook : public internal::DelegatingHook {
 public:
  explicit StepCounterHook(const StepCounterOptions& options = {});
};

// SummarySaverOptions sets which scalars a SummarySaverHook writes, and how often.
struct SummarySaverOptions {
  std::map<std::string, Tensor> scalars = {};  // by tag
  Every every = {.steps = 100};
  std::shared_ptr<ScalarSink> summary_writer = nullptr;
};
// SummarySaverHook writes the values of scalars as summaries, at the first run and then at each
// interval. Throws InvalidArgument without scalars or a writer.
class SummarySaverHook : public internal::DelegatingHook {
 public:
  explicit SummarySaverHook(const SummarySaverOptions& options);
};

// LoggingTensorOptions sets what a LoggingTensorHook prints.
struct LoggingTensorOptions {
  std::map<std::string, Tensor> tensors = {};  // by name to print
  Every every = {.steps = 100};                // counts runs
  bool at_end = false;                         // also prints at the end of the loop
  std::function<void(const std::string& line)> write = nullptr;  // nullptr: stderr
};
// LoggingTensorHook prints "loss = 0.25, rate = 0.1". Throws InvalidArgument without tensors.
class LoggingTensorHook : public internal::DelegatingHook {
 public:
  explicit LoggingTensorHook(const LoggingTensorOptions& options);
};

// FeedFnHook calls `feed` before each run and feeds what it returns.
class FeedFnHook : public internal::DelegatingHook {
 public:
  explicit FeedFnHook(std::function<Feeds()> feed);
};

}  // namespace cohort
