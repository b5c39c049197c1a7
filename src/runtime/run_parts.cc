#include "runtime/run_parts.h"

#include <condition_variable>
#include <latch>
#include <unordered_map>

#include "base/raise.h"
#include "base/timeline.h"
#include "runtime/call_plan.h"
#include "runtime/node_spans.h"
#include "runtime/outcome.h"
#include "runtime/worker_pool.h"

namespace cohort::internal {
namespace {

// Edges between the parts of a run in one process: a table that both sides meet at.
class LocalEdges : public EdgeTable {
 public:
  void send(int64_t edge, const Tensor& value) override {
    {
      const std::lock_guard lock(mutex_);
      values_[edge] = value;
    }
    arrived_.notify_all();
  }

  Tensor receive(int64_t edge, Cancellation& cancellation) override {
    const Cancellation::Listener listener(cancellation, [this] {
      const std::lock_guard lock(mutex_);
      arrived_.notify_all();
    });
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return values_.contains(edge) || cancellation.cancelled(); });
    cancellation.check();
    Tensor value = std::move(values_.at(edge));
    values_.erase(edge);
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::unordered_map<int64_t, Tensor> values_;
};

class PartContext : public FunctionCaller {
 public:
  PartContext(ResourceTable& resources, Cancellation& cancellation, EdgeTable& edges,
              RunNumber& number)
      : resources_(resources), cancellation_(cancellation), edges_(edges), number_(number) {}
  ResourceTable& resources() override { return resources_; }
  Cancellation& cancellation() override { return cancellation_; }
  EdgeTable& edges() override { return edges_; }
  uint64_t run_number() override { return number_.get(); }

 private:
  ResourceTable& resources_;
  Cancellation& cancellation_;
  EdgeTable& edges_;
  RunNumber& number_;
};

// Cancels a run when its time is up; ends with the object.
class Deadline {
 public:
  Deadline(Cancellation& cancellation, std::chrono::milliseconds limit) {
    if (limit.count() <= 0) return;
    watcher_ = std::make_unique<Thread>(
        "cohort-deadline", [&cancellation, limit, this](const std::stop_token&) {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, limit, [&] { return done_; })) return;
          lock.unlock();
          cancellation.cancel(
              {.code = Code::DeadlineExceeded,
               .message = fmt::format("[Session] the run took longer than {} ms", limit.count())});
        });
  }
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    over_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::unique_ptr<Thread> watcher_;
};

// One run of all parts.
class PartsRun {
 public:
  PartsRun(const CompiledRun& run, const std::vector<Tensor>& values, const RunSetting& setting)
      : run_(run),
        values_(values),
        setting_(setting),
        cancellation_(setting.cancellation),
        number_(setting.numbered_runs),
        results_(run.num_fetches),
        statuses_(run.parts.size()),
        times_(run.parts.size()) {}

  std::vector<Tensor> go() {
    const auto start = std::chrono::steady_clock::now();
    std::latch others(static_cast<std::ptrdiff_t>(run_.parts.size()) - 1);
    for (size_t i = 1; i < run_.parts.size(); ++i) {
      run_pool().submit([this, i, &others] {
        run_part(i);
        others.count_down();
      });
    }
    run_part(0);
    others.wait();
    throw_if_error(root_cause(statuses_));
    if (is_traced()) fill(*setting_.metadata, start);
    if (timeline_is_on()) add_to_rows();
    return std::move(results_);
  }

 private:
  void run_part(size_t index) {
    const CompiledRun::Part& part = run_.parts[index];
    statuses_[index] = capture_status([&] {
      const DeviceScope on(part.device.to_string());
      std::vector<Tensor> feeds;
      for (const size_t position : part.feeds) feeds.push_back(values_[position]);
      PartContext context(setting_.resources.at(part.device.to_string()), cancellation_, edges_,
                          number_);
      const std::vector<Tensor> fetched = run_plan(
          *part.plan, feeds, context,
          {.times = keeps_times() ? &times_[index] : nullptr, .settled = part.settled.get()});
      for (size_t i = 0; i < fetched.size(); ++i) results_[part.fetches[i]] = fetched[i];
    });
    if (statuses_[index].ok()) return;
    Status consequence = statuses_[index];
    consequence.derived = true;
    cancellation_.cancel(std::move(consequence));
  }

  bool is_traced() const { return setting_.metadata != nullptr; }
  bool keeps_times() const { return is_traced() || timeline_is_on(); }

  void add_to_rows() const {
    for (size_t i = 0; i < times_.size(); ++i) {
      add_nodes_to_timeline(times_[i], run_.parts[i].device.to_string());
    }
  }

  void fill(RunMetadata& metadata, std::chrono::steady_clock::time_point start) const {
    metadata.nodes.clear();
    for (size_t i = 0; i < times_.size(); ++i) {
      for (const StepTime& time : times_[i]) {
        metadata.nodes.push_back({.node = time.node->name,
                                  .op = std::string(time.node->op->name),
                                  .device = run_.parts[i].device.to_string(),
                                  .start = time.start - start,
                                  .duration = time.end - time.start,
                                  .output_bytes = time.output_bytes});
      }
    }
  }

  const CompiledRun& run_;
  const std::vector<Tensor>& values_;
  const RunSetting& setting_;
  Cancellation& cancellation_;
  RunNumber number_;
  LocalEdges edges_;
  std::vector<Tensor> results_;
  std::vector<Status> statuses_;
  std::vector<std::vector<StepTime>> times_;
};

}  // namespace

std::vector<Tensor> run_parts(const CompiledRun& run, const std::vector<Tensor>& values,
                              const RunSetting& setting) {
  if (run.parts.empty()) return {};  // nothing is fetched
  const Deadline deadline(setting.cancellation, setting.limit);
  return PartsRun(run, values, setting).go();
}

}  // namespace cohort::internal
