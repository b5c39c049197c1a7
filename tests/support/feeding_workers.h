#pragma once

// Workers that only feed: each is a thread with a strategy of its own.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/raise.h"
#include "cohort/readers.h"
#include "cohort/strategy_extended.h"
#include "distribute/input/distributed_input.h"
#include "support/distributed_steps.h"
#include "tensor/devices.h"

namespace cohort {

struct Cluster {
  int workers = 1;
  int replicas_per_worker = 1;
};

// Adds up what all workers bring to a step.
class WorkerRendezvous {
 public:
  explicit WorkerRendezvous(int workers)
      : workers_(workers), texts_(static_cast<size_t>(workers)) {}

  InputTotals add(const InputTotals& here) {
    std::unique_lock lock(mutex_);
    sum_.replicas_with_data += here.replicas_with_data;
    sum_.samples += here.samples;
    sum_.failed_workers += here.failed_workers;
    sum_.undescribed_workers += here.undescribed_workers;
    await_all(lock, [this] { result_ = std::exchange(sum_, {}); });
    return result_;
  }
  std::vector<std::string> gather(int worker, const std::string& here) {
    std::unique_lock lock(mutex_);
    texts_[static_cast<size_t>(worker)] = here;
    await_all(lock, [this] { result_texts_ = texts_; });
    return result_texts_;
  }

 private:
  // `last` is done by the last one to come.
  void await_all(std::unique_lock<std::mutex>& lock, const std::function<void()>& last) {
    const int64_t round = round_;
    if (++arrived_ == workers_) {
      last();
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return round_ > round; })) {
      internal::raise(Code::DeadlineExceeded, "the other workers did not come");
    }
  }

  const int workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  InputTotals sum_;
  InputTotals result_;
  std::vector<std::string> texts_;
  std::vector<std::string> result_texts_;  // of the last round, while others begin the next
  int arrived_ = 0;
  int64_t round_ = 0;
};

// A strategy that only feeds: one of several workers with devices of this process.
class FeedingExtended : public StrategyExtended, public CrossWorkerInput {
 public:
  FeedingExtended(InputContext context, int devices, WorkerRendezvous& rendezvous)
      : context_(context), devices_(devices), rendezvous_(rendezvous) {
    internal::ensure_cpu_devices(devices);
  }

  std::string name() const override { return "FeedingStrategy"; }
  std::vector<std::string> worker_devices() const override {
    std::vector<std::string> all;
    for (int i = 0; i < devices_; ++i) all.push_back(canonical_device(fmt::format("CPU:{}", i)));
    return all;
  }
  InputContext input_context() const override { return context_; }
  InputTotals sum_over_workers(const InputTotals& here) override { return rendezvous_.add(here); }
  std::vector<std::string> gather_from_workers(const std::string& here,
                                               const std::string&) override {
    return tells_ ? rendezvous_.gather(context_.input_pipeline_id(), here) : std::vector{here};
  }
  // Whether workers tell each other more than numbers.
  void set_tells(bool tells) { tells_ = tells; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return next(request);
  }
  std::vector<DistributedValue> batch_reduce_to(ReduceOp, std::span<const ReduceRequest> requests,
                                                const CommunicationOptions&) override {
    std::vector<DistributedValue> values;
    for (const ReduceRequest& request : requests) values.push_back(request.value);
    return values;
  }
  DistributedValue broadcast_to(const Tensor& value, const Destinations&) override { return value; }
  DistributedValue gather_to(const DistributedValue& value, const Destinations&, int,
                             const CommunicationOptions&) override {
    return value;
  }
  DistributedValue update_copies(const Variable& variable, const Change& change) override {
    return DistributedValue(Gradient(change(variable, 0)));
  }

 private:
  const InputContext context_;
  const int devices_;
  WorkerRendezvous& rendezvous_;
  bool tells_ = true;
};

inline Strategy feeding(const InputContext& context, int devices, WorkerRendezvous& rendezvous) {
  return Strategy(std::make_unique<FeedingExtended>(context, devices, rendezvous));
}

// Runs `body(strategy)` in one thread per worker and returns the results in their order.
template <typename Body>
auto on_all_workers(const Cluster& cluster, const Body& body) {
  WorkerRendezvous rendezvous(cluster.workers);
  std::vector<decltype(body(std::declval<Strategy&>()))> results(
      static_cast<size_t>(cluster.workers));
  std::vector<Status> failures(results.size());
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < cluster.workers; ++worker) {
      threads.emplace_back([&, worker] {
        const int replicas = cluster.workers * cluster.replicas_per_worker;
        const auto index = static_cast<size_t>(worker);
        failures[index] = capture_status([&] {
          Strategy strategy = feeding(InputContext(cluster.workers, worker, replicas),
                                      cluster.replicas_per_worker, rendezvous);
          results[index] = body(strategy);
        });
      });
    }
  }
  for (const Status& failure : failures) throw_if_error(failure);
  return results;
}

inline int worker_of(Strategy& strategy) {
  return strategy.extended().input_context().input_pipeline_id();
}

// The steps of every worker.
inline std::vector<Steps> distribute(const Cluster& cluster, const data::Dataset& dataset) {
  return on_all_workers(
      cluster, [&](Strategy& strategy) { return steps_of(strategy.distribute_dataset(dataset)); });
}
inline std::vector<Steps> distribute(const Cluster& cluster, data::AutoShardPolicy policy,
                                     const data::Dataset& dataset) {
  return distribute(cluster, with_policy(dataset, policy));
}

// The pass of that number, as a Trainer that resumes makes it.
inline Steps pass_of(const DistributedDataset& dataset, int64_t number) {
  return rest_of(internal::Access::make<DistributedIterator>(
      std::make_shared<internal::DistributedInputIterator>(internal::Access::impl(dataset), nullptr,
                                                           number)));
}

// One file of numbers for each list.
class NumberFiles {
 public:
  explicit NumberFiles(const std::vector<std::vector<int64_t>>& files) {
    for (size_t i = 0; i < files.size(); ++i) {
      std::string content;
      for (const int64_t number : files[i]) content += std::to_string(number) + "\n";
      paths_.push_back(directory_.file("numbers" + std::to_string(i), content));
    }
  }
  const std::vector<std::string>& paths() const { return paths_; }
  data::Dataset dataset() const {
    return data::text_lines(paths_).map(
        [](const std::string& line) { return int64_t{std::stol(line)}; });
  }

 private:
  data::TemporaryDirectory directory_;
  std::vector<std::string> paths_;
};

}  // namespace cohort
