// What the replicas of several workers get: shards of the data, and one end for all.

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using test::kTwoReplicas;
using test::on_workers;
using test::run_workers;

data::Dataset with_policy(const data::Dataset& dataset, AutoShardPolicy policy) {
  return dataset.options({.auto_shard_policy = policy});
}

// What a worker's replicas get, step by step.
std::vector<std::vector<std::vector<int64_t>>> steps_of(Strategy& strategy,
                                                        const data::Dataset& dataset) {
  std::vector<std::vector<std::vector<int64_t>>> steps;
  for (const auto& step : strategy.distribute_dataset(dataset)) {
    auto& replicas = steps.emplace_back();
    for (size_t r = 0; r < step.size(); ++r) {
      replicas.push_back(step[r].tensor().to_vector<int64_t>());
    }
  }
  return steps;
}

using Steps = std::vector<std::vector<std::vector<int64_t>>>;

TEST(MultiWorkerInput, DataShardingDealsTheBatchesOut) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto steps =
            steps_of(strategy, with_policy(data::range(24).batch(12), AutoShardPolicy::Data));
        ASSERT_EQ(steps.size(), 2u);
        EXPECT_EQ(steps[0], strategy.worker_id() == 0
                                ? (Steps::value_type{{0, 1, 2}, {6, 7, 8}})
                                : (Steps::value_type{{3, 4, 5}, {9, 10, 11}}));
      },
      kTwoReplicas);
}

TEST(MultiWorkerInput, WithoutShardingAllSeeEverything) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto steps =
        steps_of(strategy, with_policy(data::range(8).batch(4), AutoShardPolicy::Off));
    EXPECT_EQ(steps, (Steps{{{0, 1}}, {{2, 3}}, {{4, 5}}, {{6, 7}}}));
  });
}

TEST(MultiWorkerInput, FilesAreDividedAndUnequalEndsAreAgreedOn) {
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& name, int count, int first) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += std::to_string(first + i) + "\n";
    return directory.write(name, lines);
  };
  const std::vector<std::string> files{write("a", 9, 0), write("b", 9, 100)};
  on_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto dataset = with_policy(data::text_lines(files).batch(6), AutoShardPolicy::File);
        std::vector<std::vector<int64_t>> counts;
        std::vector<int64_t> totals;
        for (const auto& step : strategy.distribute_dataset(dataset)) {
          counts.push_back(step.sample_counts());
          totals.push_back(step.global_sample_count());
        }
        EXPECT_EQ(totals, (std::vector<int64_t>{6, 6, 5, 1}));
        EXPECT_EQ(counts,
                  strategy.worker_id() == 0
                      ? (std::vector<std::vector<int64_t>>{{2, 2}, {1, 1}, {2, 1}, {0, 0}})
                      : (std::vector<std::vector<int64_t>>{{1, 1}, {2, 2}, {1, 1}, {1, 0}}));
      },
      kTwoReplicas);
}

// As in TensorFlow: Auto looks at what reads, and not at how many files there are.
TEST(MultiWorkerInput, AutoWithFewerFilesThanWorkersIsAnErrorOnAllWorkers) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("only", "1\n2\n3\n4\n");
  on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const data::Dataset lines = data::text_lines({file}).batch(2);
    const auto count_steps = [&](const data::Dataset& dataset) {
      int64_t steps = 0;
      for (const auto& step : strategy.distribute_dataset(dataset)) steps += step.size() == 1;
      return steps;
    };
    EXPECT_ERROR(Code::InvalidArgument, "use AutoShardPolicy::Data", count_steps(lines));
    EXPECT_EQ(count_steps(with_policy(lines, AutoShardPolicy::Data)), 2);
  });
}

// The mean over all samples is right for every number of samples. No worker waits forever, and no
// sample counts twice.
TEST(MultiWorkerInput, MeansAreRightForEverySplit) {
  for (int workers = 2; workers <= 4; ++workers) {
    on_workers(workers, [](MultiWorkerMirroredStrategy& strategy) {
      for (int64_t samples = 1; samples <= 17; ++samples) {
        const auto dataset =
            with_policy(data::from_tensor_slices(cast(range(samples), kFloat32)).batch(5),
                        AutoShardPolicy::Data);
        double sum_of_all = 0;
        double count = 0;
        for (const auto& step : strategy.distribute_dataset(dataset)) {
          const auto parts = strategy.run([](const Tensor& x) { return sum(x); }, step);
          sum_of_all += strategy.reduce(ReduceOp::Sum, parts).to<double>();
          count += static_cast<double>(step.global_sample_count());
        }
        EXPECT_EQ(count, static_cast<double>(samples));
        EXPECT_DOUBLE_EQ(sum_of_all / count, static_cast<double>(samples - 1) / 2) << samples;
      }
    });
  }
}

TEST(MultiWorkerInput, AShuffleWithoutASeedGivesEverySampleOnce) {
  std::mutex mutex;
  std::vector<int64_t> all;
  on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto steps = steps_of(strategy, data::range(100).shuffle(100).batch(10));
    const std::lock_guard lock(mutex);
    for (const auto& replicas : steps)
      all.insert(all.end(), replicas[0].begin(), replicas[0].end());
  });
  std::ranges::sort(all);
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(std::ranges::unique(all).size(), 0u);
}

// A function that is traced takes the steps that a plain loop would, from a source that begins
// once.
TEST(MultiWorkerInput, ATracedStepLosesNothingOfALiveSource) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto next = std::make_shared<int64_t>(0);
    const auto live = data::generator([next] {
      return
          [next]() -> std::optional<data::Element> { return data::Element(Tensor({(*next)++})); };
    });
    auto it = strategy
                  .distribute_datasets_from_function([&](const InputContext&) { return live; },
                                                     {.fetch_to_device = false})
                  .iterator();
    const auto step = function([&](DistributedIterator from) { return Tensor(from.next()[0]); });
    EXPECT_EQ(step(it).to_vector<int64_t>(), (std::vector<int64_t>{0}));
    EXPECT_EQ(step(it).to_vector<int64_t>(), (std::vector<int64_t>{1}));
  });
}

TEST(MultiWorkerInput, FunctionsKnowTheirWorker) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto dist =
            strategy.distribute_datasets_from_function([&](const InputContext& context) {
              EXPECT_EQ(context.num_input_pipelines(), 2);
              EXPECT_EQ(context.input_pipeline_id(), strategy.worker_id());
              EXPECT_EQ(context.num_replicas_in_sync(), 4);
              EXPECT_EQ(context.get_per_replica_batch_size(8), 2);
              return data::range(8).shard(2, context.input_pipeline_id()).batch(2);
            });
        int64_t steps = 0;
        for (const auto& step : dist) steps += step.global_sample_count() == 8 ? 1 : 0;
        EXPECT_EQ(steps, 1);
      },
      kTwoReplicas);
}

TEST(MultiWorkerInput, AFailedPipelineEndsTheStepOnAllWorkers) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const int own = strategy.worker_id();
    const auto dataset = strategy.distribute_datasets_from_function([&](const InputContext&) {
      return data::range(4).map([own](const Tensor& x) -> Tensor {
        if (own == 1 && x.to<int64_t>() == 2) throw Error(Code::DataLoss, "a bad sample");
        return x;
      });
    });
    for (const auto& step : dataset) (void)step;
  });
  EXPECT_EQ(statuses[0].code, Code::Cancelled) << statuses[0].to_string();
  EXPECT_NE(statuses[0].message.find("worker 1: DATA_LOSS: [Map] element 2: a bad sample"),
            std::string::npos)
      << statuses[0].message;
  EXPECT_EQ(statuses[1].code, Code::DataLoss) << statuses[1].to_string();
}

// A worker without data, behind a function that only an element would tell about.
TEST(MultiWorkerInput, AWorkerWithoutDataLearnsFromTheOthersWhatElementsAre) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset = strategy.distribute_datasets_from_function([](const InputContext& input) {
      return data::range(input.input_pipeline_id() == 0 ? 4 : 0).map([](const Tensor& x) {
        return Tensor::from(std::vector{x.to<int64_t>() / 2.0});
      });
    });
    double total = 0;
    for (const auto& step : dataset) {
      EXPECT_EQ(step[0].tensor().dtype(), kFloat64);
      const auto sums = strategy.run([](const Tensor& x) { return sum(x); }, step);
      total += strategy.reduce(ReduceOp::Sum, sums).to<double>();
    }
    EXPECT_EQ(total, 3);
  });
}

}  // namespace
}  // namespace cohort
