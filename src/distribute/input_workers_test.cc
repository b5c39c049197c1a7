// Distributed datasets of several workers, each a thread with a strategy of its own.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/raise.h"
#include "support/distributed_steps.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using data::range;

struct Cluster {
  int workers = 1;
  int replicas_per_worker = 1;
};

// Adds up what all workers bring to a step.
class Meeting {
 public:
  explicit Meeting(int workers) : workers_(workers), texts_(static_cast<size_t>(workers)) {}

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
    await_all(lock, [] {});
    return texts_;
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
  int arrived_ = 0;
  int64_t round_ = 0;
};

// A strategy that only feeds: one of several workers with devices of this process.
class FeedingExtended : public StrategyExtended {
 public:
  FeedingExtended(InputContext context, int devices, Meeting& meeting)
      : context_(context), devices_(devices), meeting_(meeting) {
    internal::ensure_cpu_devices(devices);
  }

  std::string name() const override { return "FeedingStrategy"; }
  std::vector<std::string> worker_devices() const override {
    std::vector<std::string> all;
    for (int i = 0; i < devices_; ++i) all.push_back(canonical_device(fmt::format("CPU:{}", i)));
    return all;
  }
  std::vector<std::string> parameter_devices() const override { return worker_devices(); }
  int num_replicas_in_sync() const override { return context_.num_replicas_in_sync(); }
  InputContext input_context() const override { return context_; }
  InputTotals sum_over_workers(const InputTotals& here) override { return meeting_.add(here); }
  std::vector<std::string> gather_from_workers(const std::string& here) override {
    return tells_ ? meeting_.gather(context_.input_pipeline_id(), here) : std::vector{here};
  }
  // Whether workers tell each other more than numbers.
  void set_tells(bool tells) { tells_ = tells; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return next(request);
  }
  DistributedValue reduce_to(ReduceOp, const DistributedValue& value, const Destinations&,
                             const CommunicationOptions&) override {
    return value;
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
  Meeting& meeting_;
  bool tells_ = true;
};

Strategy feeding(const InputContext& context, int devices, Meeting& meeting) {
  return Strategy(std::make_unique<FeedingExtended>(context, devices, meeting));
}

// Runs `body(strategy)` in one thread per worker and returns the results in their order.
template <typename Body>
auto on_all_workers(const Cluster& cluster, const Body& body) {
  Meeting meeting(cluster.workers);
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
                                      cluster.replicas_per_worker, meeting);
          results[index] = body(strategy);
        });
      });
    }
  }
  for (const Status& failure : failures) throw_if_error(failure);
  return results;
}

// The steps of every worker.
std::vector<Steps> distribute(const Cluster& cluster, const data::Dataset& dataset) {
  return on_all_workers(
      cluster, [&](Strategy& strategy) { return steps_of(strategy.distribute_dataset(dataset)); });
}
std::vector<Steps> distribute(const Cluster& cluster, AutoShardPolicy policy,
                              const data::Dataset& dataset) {
  return distribute(cluster, with_policy(dataset, policy));
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
  data::Dataset dataset() const {
    return data::text_lines(paths_).map(
        [](const std::string& line) { return int64_t{std::stol(line)}; });
  }

 private:
  data::TemporaryDirectory directory_;
  std::vector<std::string> paths_;
};

// What the guides of tf.distribute show, for two workers of one replica.
TEST(Workers, DivideEightElementsByPolicy) {
  const Cluster two{.workers = 2};
  EXPECT_EQ(distribute(two, AutoShardPolicy::Data, range(8).batch(4)),
            (std::vector<Steps>{{{{0, 1}}, {{4, 5}}}, {{{2, 3}}, {{6, 7}}}}));
  const Steps everything = {{{0, 1}}, {{2, 3}}, {{4, 5}}, {{6, 7}}};
  EXPECT_EQ(distribute(two, AutoShardPolicy::Off, range(8).batch(4)),
            (std::vector<Steps>{everything, everything}));
  const NumberFiles files({{0, 1, 2, 3}, {4, 5, 6, 7}});
  const std::vector<Steps> by_file = {{{{0, 1}}, {{2, 3}}}, {{{4, 5}}, {{6, 7}}}};
  EXPECT_EQ(distribute(two, AutoShardPolicy::File, files.dataset().batch(4)), by_file);
  EXPECT_EQ(distribute(two, AutoShardPolicy::Auto, files.dataset().batch(4)), by_file);
}

TEST(Workers, GetReplicaBatchesInTurnUnderDataSharding) {
  const Cluster cluster{.workers = 2, .replicas_per_worker = 2};
  const std::vector<Steps> expected = {{{{0, 1, 2}, {6, 7, 8}}, {{12, 13, 14}, {18, 19, 20}}},
                                       {{{3, 4, 5}, {9, 10, 11}}, {{15, 16, 17}, {21, 22, 23}}}};
  EXPECT_EQ(distribute(cluster, AutoShardPolicy::Data, range(24).batch(12)), expected);
  EXPECT_EQ(distribute(cluster, AutoShardPolicy::Auto, range(24).batch(12)), expected);
}

// Two files of nine samples in global batches of six; the second worker has data for longer.
TEST(Workers, StepTogetherUntilTheLastOneHasNoData) {
  const NumberFiles files({{0, 1, 2, 3, 4, 5, 6, 7, 8}, {10, 11, 12, 13, 14, 15, 16, 17, 18}});
  const Cluster cluster{.workers = 2, .replicas_per_worker = 2};
  EXPECT_EQ(distribute(cluster, AutoShardPolicy::File, files.dataset().batch(6)),
            (std::vector<Steps>{{{{0, 1}, {2, 3}}, {{4}, {5}}, {{6, 7}, {8}}, {{}, {}}},
                                {{{10}, {11}}, {{12, 13}, {14, 15}}, {{16}, {17}}, {{18}, {}}}}));
  const auto totals = on_all_workers(cluster, [&](Strategy& strategy) {
    std::vector<int64_t> all;
    for (const auto& element : strategy.distribute_dataset(files.dataset().batch(6))) {
      all.push_back(element.global_sample_count());
    }
    return all;
  });
  EXPECT_EQ(totals[0], (std::vector<int64_t>{6, 6, 5, 1}));
  EXPECT_EQ(totals[1], totals[0]);
}

TEST(Workers, TakeSizesThatAddUpToTheGlobalBatch) {
  const auto sizes = [](const Cluster& cluster, int64_t batch) {
    std::vector<std::vector<int64_t>> all;
    for (const Steps& steps :
         distribute(cluster, AutoShardPolicy::Off, range(2 * batch).batch(batch))) {
      all.emplace_back();
      for (const Rows& rows : steps) {
        for (const auto& row : rows) all.back().push_back(static_cast<int64_t>(row.size()));
      }
      all.back().resize(static_cast<size_t>(cluster.workers * cluster.replicas_per_worker));
    }
    return all;
  };
  EXPECT_EQ(sizes({2, 3}, 10), (Rows{{2, 2, 2, 2, 1, 1}, {2, 1, 1, 2, 2, 2}}));
  EXPECT_EQ(sizes({2, 2}, 5), (Rows{{2, 1, 1, 1}, {1, 1, 2, 1}}));
  EXPECT_EQ(sizes({1, 4}, 3), (Rows{{1, 1, 1, 0}}));
}

TEST(Workers, WrapElementsEvenOfOneReplica) {
  const auto found = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    const auto dist = strategy.distribute_dataset(range(4).batch(2, {.drop_remainder = true}));
    EXPECT_EQ(dist.element_spec().to_string(), "int64 (None,)");
    EXPECT_EQ(dist.cardinality(), 2);
    return std::vector{dist.iterator().next().collapsed() ? 1 : 0};
  });
  EXPECT_EQ(found[0][0], 0);
}

TEST(Workers, DoNotWaitForEachOtherInEndlessData) {
  const auto endless = range(4).batch(2).repeat();
  // Alone: a meeting would never end.
  Meeting nobody(2);
  Strategy strategy = feeding(InputContext(2, 1, 2), 1, nobody);
  auto it = strategy.distribute_dataset(endless).iterator();
  EXPECT_EQ(rows_of(it.next()), (Rows{{1}}));
  const DistributedElement element = *it.next_optional();
  EXPECT_EQ(rows_of(element), (Rows{{3}}));
  EXPECT_ERROR(Code::FailedPrecondition, "endless", element.global_sample_count());
}

TEST(Workers, WithoutAnyElementCanStillMakeEmptyOnes) {
  const auto found = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    return steps_of(strategy.distribute_datasets_from_function([](const InputContext& input) {
      return range(input.input_pipeline_id() == 0 ? 0 : 2).batch(1);
    }));
  });
  EXPECT_EQ(found, (std::vector<Steps>{{{{}}, {{}}}, {{{0}}, {{1}}}}));
}

TEST(Workers, WithOnlyEmptyFilesMakeEmptyElementsToo) {
  const NumberFiles files({{0, 1, 2}, {}});
  const auto found = distribute({.workers = 2}, AutoShardPolicy::File, files.dataset().batch(2));
  EXPECT_EQ(found, (std::vector<Steps>{{{{0}}, {{1}}, {{2}}}, {{{}}, {{}}, {{}}}}));
}

TEST(Workers, HearOfTheFailureOfAnother) {
  const auto dataset = [](int worker) {
    return range(3).map([worker](Tensor x) {
      if (worker == 1 && x.to<int64_t>() == 1) throw std::runtime_error("bad element");
      return x;
    });
  };
  const auto seen = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
    auto it = strategy
                  .distribute_datasets_from_function(
                      [&](const InputContext& input) { return dataset(input.input_pipeline_id()); })
                  .iterator();
    std::vector<std::string> all;
    for (int call = 0; call < 5; ++call) {
      const Status failure = capture_status([&] {
        const auto element = it.next_optional();
        all.push_back(element ? std::to_string(element->sample_counts()[0]) : "end");
      });
      if (!failure.ok()) all.push_back(to_string(failure.code));
    }
    return all;
  });
  EXPECT_EQ(seen[0], (std::vector<std::string>{"1", "ABORTED", "1", "1", "end"}));
  EXPECT_EQ(seen[1], (std::vector<std::string>{"1", "UNKNOWN", "1", "0", "end"}));
}

// Pairs of which only the first worker has some, behind a function that only running tells about.
DistributedDataset pairs_of_one_worker(Strategy& strategy) {
  return strategy.distribute_datasets_from_function([](const InputContext& input) {
    const int64_t count = input.input_pipeline_id() == 0 ? 3 : 0;
    return range(count)
        .map([](Tensor x) { return std::pair(x, fill({2}, cast(x, kFloat32))); })
        .batch(2);
  });
}

TEST(Workers, WithoutDataLearnFromTheOthersWhatElementsAre) {
  const auto seen =
      on_all_workers({.workers = 3, .replicas_per_worker = 2}, [](Strategy& strategy) {
        std::string shapes;
        for (const auto& step : pairs_of_one_worker(strategy)) {
          for (size_t r = 0; r < step.size(); ++r) {
            shapes += step[r][0].tensor().shape().to_string();
            shapes += step[r][1].tensor().shape().to_string();
          }
          shapes += fmt::format(" of {}; ", step.global_sample_count());
        }
        return shapes;
      });
  EXPECT_EQ(seen[0], "(2,)(2, 2)(1,)(1, 2) of 3; ");
  for (const size_t other : {1u, 2u}) EXPECT_EQ(seen[other], "(0,)(0, 2)(0,)(0, 2) of 3; ");
}

TEST(Workers, WithoutDataAreAnErrorOnAllWorkersWhereTheyCannotLearn) {
  const auto codes = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    dynamic_cast<FeedingExtended&>(strategy.extended()).set_tells(false);
    auto it = pairs_of_one_worker(strategy).iterator();
    const Status failure = capture_status([&] { it.next(); });
    EXPECT_NE(failure.message.find("give every worker at least one element"), std::string::npos)
        << failure.to_string();
    return failure.code;
  });
  EXPECT_EQ(codes, (std::vector{Code::FailedPrecondition, Code::FailedPrecondition}));
}

TEST(Workers, MustHaveEquallyManyReplicas) {
  Meeting meeting(2);
  const auto build = [&](const InputContext& context, int devices) {
    feeding(context, devices, meeting).distribute_dataset(range(4).batch(2));
  };
  EXPECT_ERROR(Code::InvalidArgument, "FeedingStrategy", build(InputContext(2, 0, 3), 1));
  EXPECT_ERROR(Code::InvalidArgument, "3 devices", build(InputContext(2, 0, 4), 3));
  EXPECT_ERROR(Code::InvalidArgument, "worker 2 of 2", build(InputContext(2, 2, 4), 2));
}

std::vector<int64_t> sorted_samples(const std::vector<Steps>& workers) {
  std::vector<int64_t> all;
  for (const Steps& steps : workers) {
    for (const Rows& rows : steps) {
      for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    }
  }
  std::ranges::sort(all);
  return all;
}

int64_t samples_in_step(const std::vector<Steps>& workers, size_t step) {
  int64_t sum = 0;
  for (const Steps& steps : workers) {
    for (const auto& row : steps[step]) sum += static_cast<int64_t>(row.size());
  }
  return sum;
}

void check_full_steps(const std::vector<Steps>& workers, int64_t batch) {
  for (const Steps& steps : workers) RC_ASSERT(steps.size() == workers[0].size());
  for (size_t step = 0; step + 1 < workers[0].size(); ++step) {
    RC_ASSERT(samples_in_step(workers, step) == batch);
  }
}

Cluster some_cluster() {
  return {.workers = *rc::gen::inRange(1, 4), .replicas_per_worker = *rc::gen::inRange(1, 5)};
}

RC_GTEST_PROP(Workers, DataShardingGivesEverySampleOnce, ()) {
  const Cluster cluster = some_cluster();
  const auto batch = *rc::gen::inRange<int64_t>(1, 13);
  const auto count = *rc::gen::inRange<int64_t>(0, 50);
  const std::vector<Steps> found =
      distribute(cluster, AutoShardPolicy::Data, range(count).batch(batch));
  RC_ASSERT(sorted_samples(found) == data::numbers(range(count)));
  check_full_steps(found, batch);
}

RC_GTEST_PROP(Workers, WithoutShardingEachGetsEverySampleOnce, ()) {
  const Cluster cluster = some_cluster();
  const auto batch = *rc::gen::inRange<int64_t>(1, 13);
  const auto count = *rc::gen::inRange<int64_t>(0, 50);
  const std::vector<Steps> found =
      distribute(cluster, AutoShardPolicy::Off, range(count).batch(batch));
  for (const Steps& steps : found) {
    RC_ASSERT(sorted_samples({steps}) == data::numbers(range(count)));
  }
  // Workers run out of data at different times; until then the sizes add up.
  for (int64_t step = 0; step < count / batch; ++step) {
    RC_ASSERT(samples_in_step(found, static_cast<size_t>(step)) == batch);
  }
}

RC_GTEST_PROP(Workers, FileShardingGivesEverySampleOnce, ()) {
  const Cluster cluster = some_cluster();
  const auto batch = *rc::gen::inRange<int64_t>(1, 13);
  std::vector<std::vector<int64_t>> content(
      static_cast<size_t>(cluster.workers + *rc::gen::inRange(0, 3)));
  int64_t next = 0;
  for (auto& file : content) {
    for (auto lines = *rc::gen::inRange(0, 12); lines > 0; --lines) file.push_back(next++);
  }
  const NumberFiles files(content);
  const std::vector<Steps> found =
      distribute(cluster, AutoShardPolicy::File, files.dataset().batch(batch));
  RC_ASSERT(sorted_samples(found) == data::numbers(range(next)));
  for (const Steps& steps : found) RC_ASSERT(steps.size() == found[0].size());
}

}  // namespace
}  // namespace cohort
