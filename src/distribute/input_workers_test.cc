// Distributed datasets of several workers.

#include <gtest/gtest.h>

#include <map>

#include "support/feeding_workers.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using data::range;

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

}  // namespace
}  // namespace cohort
