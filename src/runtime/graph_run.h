#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "cohort/session.h"
#include "runtime/executor.h"

namespace cohort::internal {

// The error of a run whose parts ended with these statuses. It joins the failures that are not
// consequences of another failure, with the code of the first. It is a consequence only if all
// failures are consequences, and OK if all parts are OK.
Status root_cause(const std::vector<Status>& outcomes);

struct RunResult {
  Status status = {};
  std::vector<Tensor> fetches = {};  // by position; none after a failure
  std::vector<NodeTiming> timings = {};
};

// One run of the parts of a graph in this process. No thread waits for a tensor: a part stops if a
// tensor is missing, and continues when the tensor arrives. The parts of a quick plan run on the
// threads that make them ready, one thread at a time; the parts of other plans run at the same time
// on threads of the pool. If a part fails, the other parts are cancelled. Thread-safe.
class GraphRun : public std::enable_shared_from_this<GraphRun> {
 public:
  // The plan must outlive the end of the run.
  GraphRun(const CompiledRun& plan, std::shared_ptr<Cancellation> cancellation);
  virtual ~GraphRun();

  // Ends the run soon with `why`. Does nothing if the run has ended.
  void cancel(Status why);

 protected:
  // A tensor that a part has waited for.
  struct Missing {
    const CompiledRun::Arrival& arrival;
    std::chrono::steady_clock::time_point since;
  };

  // Creates the parts, with these values of the plan's feeds. Called once, before start().
  void prepare(const std::vector<Tensor>& feeds, bool keeps_timings);
  // Starts the parts from number `first` on. A quick plan may have ended when this returns.
  void start(size_t first = 0);
  // Runs a part on this thread until it ends or stops.
  virtual void run_part(size_t part);
  const CompiledRun& plan() const { return plan_; }
  bool is_quick() const { return quick_; }
  // Delivers a tensor from elsewhere to its place among the plan's arrivals, before or after
  // start().
  void arrive(std::span<const int> places, std::vector<Tensor> tensors);
  // Resumes the parts that wait for tensors, because the run is cancelled.
  void resume_waiting();
  // The tensors that parts have been waiting for since before that time.
  std::vector<Missing> missing(std::chrono::steady_clock::time_point before);

  virtual ResourceTable& resources(size_t part) = 0;
  virtual uint64_t run_number() = 0;
  // Sends the tensor of an edge that no part in this process takes. The thread of the part calls
  // this function and the next two.
  virtual void send_away(size_t part, int64_t edge, const Tensor& value);
  // The part takes a tensor next, and is about to stop if the tensor has not arrived.
  virtual void before_taking(size_t /*part*/, bool /*has_arrived*/) {}
  // The part has run all its steps; `is_last`: the other parts have ended.
  virtual void before_end(size_t /*part*/, bool /*is_last*/) {}
  // Called once, by the thread that ended the last part.
  virtual void finished(RunResult result) = 0;

 private:
  class Part;
  // The tensors that have arrived for a part since it last took them.
  struct Incoming {
    std::vector<std::pair<int, Tensor>> fresh = {};    // by place among the plan's arrivals
    int awaited = CompiledRun::kNone;                  // the place for which the part stopped
    std::chrono::steady_clock::time_point since = {};  // when it stopped
  };
  enum class IfMissing { Stop, Return };

  // Moves the tensors that have arrived for the part to their places in `arrived`. Returns whether
  // `place` has a tensor, or never will. If false, and the part is to stop, the part runs again
  // when the tensor arrives.
  bool collect(size_t part, int place, std::vector<Tensor>& arrived, IfMissing if_missing);
  void add_arrived(int place, Tensor value);  // mutex_ is held, as in the next function
  void make_ready(size_t part);
  void drive();
  void part_ended(size_t part, Status status);
  void finish();

  const CompiledRun& plan_;
  const std::shared_ptr<Cancellation> cancellation_;
  std::chrono::steady_clock::time_point began_;  // constant from prepare() on, as the next ones
  bool quick_ = false;
  bool keeps_timings_ = false;
  std::vector<std::unique_ptr<Part>> parts_;  // null once ended

  Mutex mutex_;
  std::vector<Incoming> incoming_;  // by part; guarded by mutex_, as all below
  std::deque<size_t> ready_;        // of a quick plan
  bool driving_ = false;            // a thread runs what is in ready_
  size_t running_ = 0;              // parts that have not ended
  std::vector<Status> statuses_;
  std::vector<std::vector<NodeTiming>> timings_;  // by part
  RunResult result_;
  int64_t busy_ns_ = 0;
};

// The settings of a run in this process.
struct RunSetting {
  const std::shared_ptr<Cancellation>& cancellation;
  std::atomic<uint64_t>& numbered_runs;  // of the session, or the function: see RunNumber
  std::chrono::milliseconds limit = {};  // 0 = none
  RunMetadata* metadata = nullptr;       // filled if not null
};

// Runs a request whose parts are all in this process and returns the fetches. A run with one part
// takes no lock and stays on this thread. With several parts this thread runs the first one, or all
// if the plan is quick. Throws root_cause(), or DeadlineExceeded after the limit.
std::vector<Tensor> run_parts(const CompiledRun& run, const std::vector<Tensor>& values,
                              const RunSetting& setting);

}  // namespace cohort::internal
