#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/graph_variable.h"
#include "cohort/session.h"
#include "cohort/summary.h"
#include "cohort/threads.h"

// What happens around each run of a MonitoredSession: hooks, and those that most programs use.

namespace cohort {

// What a hook wants of a run besides what the caller wants.
struct SessionRunArgs {
  std::vector<Tensor> fetches = {};
  Feeds feeds = {};
  RunOptions options = {};  // merged with others': the longest timeout, a trace when anybody asks
};

// What a hook gets of it.
struct SessionRunValues {
  std::vector<Tensor> results;  // one for each fetch it asked for
  RunOptions options;           // those of the run
  RunMetadata metadata;         // filled when the run was traced
};

// The run that a hook is asked about.
class SessionRunContext {
 public:
  SessionRunContext(const std::vector<Tensor>& fetches, const Feeds& feeds, Session& session)
      : fetches_(fetches), feeds_(feeds), session_(session) {}

  const std::vector<Tensor>& original_fetches() const { return fetches_; }
  const Feeds& original_feeds() const { return feeds_; }
  Session& session() const { return session_; }
  // The training loop ends after this run.
  void request_stop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  const std::vector<Tensor>& fetches_;
  const Feeds& feeds_;
  Session& session_;
  bool stop_requested_ = false;
};

// Something that happens around the runs of a MonitoredSession. Hooks are called in the order in
// which they were given, in the thread that runs.
class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;
  // Once, before the graph is finalised: the last chance to add variables.
  virtual void begin() {}
  // Once, when every hook has begun, so that the graph has all its variables; it may still grow.
  virtual void prepare_graph() {}
  // After each creation of a session, also after a recovery.
  virtual void after_create_session(Session& /*session*/, Coordinator& /*coordinator*/) {}
  virtual SessionRunArgs before_run(SessionRunContext& /*context*/) { return {}; }
  // Not called when the run throws.
  virtual void after_run(SessionRunContext& /*context*/, const SessionRunValues& /*values*/) {}
  // Once, when the loop ends without an error.
  virtual void end(Session& /*session*/) {}
};
using Hooks = std::vector<std::shared_ptr<SessionRunHook>>;

// How a session's variables get into files and back. Thread-safe.
class SessionSaver {
 public:
  virtual ~SessionSaver() = default;
  // Writes them as "prefix-step" and returns what latest() will find.
  virtual std::string save(Session& session, const std::string& prefix, int64_t step) = 0;
  virtual void restore(Session& session, const std::string& path) = 0;
  // The last good one in the directory.
  virtual std::optional<std::string> latest(const std::string& directory) = 0;
  // While the graph may still grow and before the first of the others. Again is harmless.
  virtual void prepare_graph() {}
};
// Checkpoints of all variables that the graph has when its session is made, see Saver.
std::shared_ptr<SessionSaver> make_session_saver(const SaverOptions& options = {});

// ---- Stopping

struct StopAtStepOptions {
  // Exactly one of the two (InvalidArgument).
  std::optional<int64_t> num_steps = std::nullopt;  // from the global step at session creation
  std::optional<int64_t> last_step = std::nullopt;
};
// Ends the loop when the global step has got there.
class StopAtStepHook : public SessionRunHook {
 public:
  explicit StopAtStepHook(const StopAtStepOptions& options);
  void begin() override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const std::optional<int64_t> num_steps_;
  std::optional<int64_t> last_step_;
  Tensor global_step_;
};

enum class OnNan {
  Throw,  // InvalidArgument
  Stop,   // ends the loop, with a warning
};
// Looks at a loss after each run.
class NanTensorHook : public SessionRunHook {
 public:
  explicit NanTensorHook(Tensor loss, OnNan action = OnNan::Throw);
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const Tensor loss_;
  const OnNan action_;
};

// ---- Every so often

// How often: exactly one of the two (InvalidArgument).
struct Every {
  std::optional<int64_t> steps = std::nullopt;
  std::optional<double> secs = std::nullopt;
};

namespace internal {

// Whether it is time again. The first time it always is.
class EveryTimer {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;
  EveryTimer(
      std::string_view hook, const Every& every,
      Now now = [] { return std::chrono::steady_clock::now(); });

  bool due(int64_t step) const;
  // It happened at this step. Gives what passed since the last time.
  struct Elapsed {
    double secs = 0;
    int64_t steps = 0;
  };
  std::optional<Elapsed> happened(int64_t step);
  std::optional<int64_t> last_step() const { return last_step_; }

 private:
  Every every_;
  Now now_;
  std::optional<int64_t> last_step_;
  std::chrono::steady_clock::time_point last_time_;
};

}  // namespace internal

struct CheckpointSaverOptions {
  std::string checkpoint_dir = {};
  Every every = {.secs = 600};
  std::shared_ptr<SessionSaver> saver = nullptr;  // nullptr: make_session_saver()
  std::string basename = "model.ckpt";
};
// Saves after the creation of the session, then whenever that many steps or seconds have passed
// since the last time, and at the end unless that step is saved.
class CheckpointSaverHook : public SessionRunHook {
 public:
  // InvalidArgument without a checkpoint_dir.
  explicit CheckpointSaverHook(const CheckpointSaverOptions& options);
  void begin() override;
  void prepare_graph() override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;
  void end(Session& session) override;

 private:
  void save(Session& session, int64_t step);

  const CheckpointSaverOptions options_;
  internal::EveryTimer timer_;
  Tensor global_step_;
};

struct StepCounterOptions {
  Every every = {.steps = 100};
  std::shared_ptr<ScalarSink> summary_writer = nullptr;  // gets "global_step/sec"
};
// Logs (info), and writes, how many steps are made per second.
class StepCounterHook : public SessionRunHook {
 public:
  explicit StepCounterHook(const StepCounterOptions& options = {});
  void begin() override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const StepCounterOptions options_;
  internal::EveryTimer timer_;
  Tensor global_step_;
};

struct SummarySaverOptions {
  std::map<std::string, Tensor> scalars = {};  // by tag
  Every every = {.steps = 100};
  std::shared_ptr<ScalarSink> summary_writer = nullptr;
};
// Writes the values of scalars at the first run and every so often.
class SummarySaverHook : public SessionRunHook {
 public:
  explicit SummarySaverHook(const SummarySaverOptions& options);
  void begin() override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;
  void end(Session& session) override;

 private:
  const SummarySaverOptions options_;
  internal::EveryTimer timer_;
  Tensor global_step_;
  int64_t next_step_ = 0;
  bool asked_ = false;
};

struct LoggingTensorOptions {
  std::map<std::string, Tensor> tensors = {};  // by the name to print
  Every every = {.steps = 100};                // counts runs
  bool at_end = false;
  std::function<void(const std::string& line)> write = nullptr;  // nullptr: to stderr
};
// Prints values: "loss = 0.25, rate = 0.1".
class LoggingTensorHook : public SessionRunHook {
 public:
  explicit LoggingTensorHook(const LoggingTensorOptions& options);
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;
  void end(Session& session) override;

 private:
  void print(const std::vector<Tensor>& values) const;

  LoggingTensorOptions options_;
  std::vector<Tensor> fetches_;
  internal::EveryTimer timer_;
  int64_t runs_ = 0;
  bool asked_ = false;
};

// Feeds what `feed` returns to each run.
class FeedFnHook : public SessionRunHook {
 public:
  explicit FeedFnHook(std::function<Feeds()> feed) : feed_(std::move(feed)) {}
  SessionRunArgs before_run(SessionRunContext&) override { return {.feeds = feed_()}; }

 private:
  const std::function<Feeds()> feed_;
};

}  // namespace cohort
