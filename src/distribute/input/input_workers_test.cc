// Distributed datasets of several workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>

#include "cohort/strategy_extended.h"
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

// Each walk begins together; then one worker takes many steps and the other none.
TEST(Workers, DoNotWaitForEachOtherInEndlessData) {
  const auto endless = range(4).batch(2).repeat();
  const auto found = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
    auto it = strategy.distribute_dataset(endless).iterator();
    Steps steps = {rows_of(it.next())};
    if (strategy.extended().input_context().input_pipeline_id() == 0) return steps;
    const DistributedElement element = *it.next_optional();
    EXPECT_ERROR(Code::FailedPrecondition, "endless", element.global_sample_count());
    steps.push_back(rows_of(element));
    for (int i = 0; i < 50; ++i) it.next();
    return steps;
  });
  EXPECT_EQ(found, (std::vector<Steps>{{{{0}}}, {{{1}}, {{3}}}}));
}

TEST(Workers, KnowTheSamplesOfEndlessDataWhereSizesAreStatic) {
  const auto counts = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
    const auto dataset = range(8).batch(4, {.drop_remainder = true}).repeat();
    return strategy.distribute_dataset(dataset).iterator().next().global_sample_count();
  });
  EXPECT_EQ(counts, (std::vector<int64_t>{4, 4}));
}

// Whether workers count together follows from what all of them have.
TEST(Workers, CountTogetherUnlessTheDataOfAllIsEndless) {
  const auto totals = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    const auto dist = strategy.distribute_datasets_from_function([](const InputContext& input) {
      const auto few = range(3).batch(1);
      return input.input_pipeline_id() == 0 ? few.repeat() : few;
    });
    auto it = dist.iterator();
    std::vector<int64_t> all;
    for (int step = 0; step < 5; ++step) all.push_back(it.next().global_sample_count());
    return all;
  });
  EXPECT_EQ(totals[0], (std::vector<int64_t>{2, 2, 2, 1, 1}));
  EXPECT_EQ(totals[1], totals[0]);
}

TEST(Workers, ThatUseOtherIteratorsHearOfIt) {
  const auto told = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    const auto dist = strategy.distribute_dataset(range(8).batch(4));
    steps_of(dist);
    const std::string second = dist.iterator().save();
    auto it = worker_of(strategy) == 0 ? dist.iterator() : dist.iterator(second);
    return capture_status([&] { it.next(); }).to_string();
  });
  for (const std::string& text : told) {
    EXPECT_NE(text.find("pass"), std::string::npos) << text;
    EXPECT_NE(text.find("FAILED_PRECONDITION"), std::string::npos) << text;
  }
}

// Orders that parallel stages need not keep would differ between workers.
TEST(Workers, CountElementsInOrderWhateverAStageMayDo) {
  const auto found = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    const auto gate = std::make_shared<std::atomic<bool>>(false);
    const int own = worker_of(strategy);
    // On one worker the second element is ready before the first.
    const auto late = [gate, own](int64_t x) {
      if (own == 1 && x == 0) gate->wait(false);
      if (x == 1) {
        gate->store(true);
        gate->notify_all();
      }
      return x;
    };
    return steps_of(strategy.distribute_dataset(
        range(16).map(late, {.parallel = 2, .deterministic = false}).batch(2)));
  });
  EXPECT_EQ(all_samples(found), data::numbers(range(16)));
}

// A worker whose function would tell something else about files divides them as the chief says.
TEST(Workers, DivideDataAsTheChiefDecides) {
  const NumberFiles files({{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  const auto found = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
    const auto begun = std::make_shared<bool>(worker_of(strategy) == 0);
    const auto open = [begun](std::string path) {
      if (!*begun) throw std::runtime_error("not yet");
      return data::text_lines(path);
    };
    const auto numbers = data::from_tensor_slices(data::Element(Tensor::from(files.paths())))
                             .interleave(open)
                             .map([](const std::string& line) { return int64_t{std::stol(line)}; });
    const auto dist = strategy.distribute_dataset(numbers.batch(2));
    *begun = true;
    return steps_of(dist);
  });
  EXPECT_EQ(all_samples(found), data::numbers(range(8)));
  EXPECT_EQ(samples_of(found[0]), (std::vector<int64_t>{0, 4, 1, 5}));
}

TEST(Workers, HearThatTheChiefCannotDecide) {
  const auto told = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
    const int own = worker_of(strategy);
    const auto open = [own](const std::string& path) {
      if (own == 0) throw Error(Code::PermissionDenied, "no access");
      return data::text_lines(path);
    };
    const auto lines = data::from_tensor_slices(Tensor({"a", "b"})).flat_map(open).batch(2);
    return capture_status([&] { strategy.distribute_dataset(lines).iterator().next(); });
  });
  EXPECT_EQ(told[0].code, Code::PermissionDenied) << told[0].to_string();
  EXPECT_NE(told[0].message.find("set AutoShardPolicy"), std::string::npos) << told[0].message;
  EXPECT_EQ(told[1].code, Code::Cancelled) << told[1].to_string();
  EXPECT_NE(told[1].message.find("no access"), std::string::npos) << told[1].message;
}

TEST(Workers, MustShareOneDataset) {
  const auto told = [](AutoShardPolicy policy, const auto& make) {
    return on_all_workers({.workers = 2}, [&](Strategy& strategy) {
      const auto dist = strategy.distribute_dataset(with_policy(make(worker_of(strategy)), policy));
      return capture_status([&] { dist.begin(); });
    });
  };
  const auto seeds = [](int own) {
    return range(8).shuffle(8, {.seed = static_cast<uint64_t>(own)}).batch(2);
  };
  for (const Status& status : told(AutoShardPolicy::Data, seeds)) {
    EXPECT_EQ(status.code, Code::InvalidArgument);
    EXPECT_NE(status.message.find("seed=0"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("seed=1"), std::string::npos) << status.message;
  }
  const auto parts = [](int own) { return range(own * 8, own * 8 + 8).batch(2); };
  EXPECT_EQ(told(AutoShardPolicy::Auto, parts)[0].code, Code::InvalidArgument);
  EXPECT_TRUE(told(AutoShardPolicy::Off, parts)[1].ok());
  const auto ids = [](int own) {
    std::vector<int64_t> own_ids(100);
    std::iota(own_ids.begin(), own_ids.end(), own * 100);
    return data::from_tensor_slices(data::Element(Tensor::from(own_ids))).batch(2);
  };
  EXPECT_EQ(told(AutoShardPolicy::Auto, ids)[0].code, Code::InvalidArgument);
  EXPECT_TRUE(told(AutoShardPolicy::Off, ids)[0].ok());
  const auto threads = [](int own) {
    return range(8).map([](Tensor x) { return x; }, {.parallel = own + 1}).batch(2);
  };
  EXPECT_TRUE(told(AutoShardPolicy::Data, threads)[0].ok());
}

TEST(Workers, ThatCannotTellEachOtherNeedSeeds) {
  const auto told = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    dynamic_cast<FeedingExtended&>(strategy.extended()).set_tells(false);
    return capture_status(
        [&] { strategy.distribute_dataset(range(8).shuffle(8).batch(2)).begin(); });
  });
  EXPECT_EQ(told[0].code, Code::FailedPrecondition) << told[0].to_string();
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
  EXPECT_EQ(seen[0], (std::vector<std::string>{"1", "CANCELLED", "1", "1", "end"}));
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

// Repetition of nothing ends, while the data of the other worker goes on.
TEST(Workers, WithoutDataAreAnErrorWhereTheDataIsEndless) {
  const auto told = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    const auto dist = strategy.distribute_datasets_from_function([](const InputContext& input) {
      const bool has_data = input.input_pipeline_id() == 0;
      return range(4).filter([has_data](int64_t) { return has_data; }).batch(1).repeat();
    });
    auto it = dist.iterator();
    const Status first = capture_status([&] { it.next(); });
    const Status second = capture_status([&] { it.next_optional(); });
    EXPECT_EQ(first.code, second.code);
    return first;
  });
  EXPECT_TRUE(told[0].ok()) << told[0].to_string();
  EXPECT_EQ(told[1].code, Code::FailedPrecondition);
  EXPECT_NE(told[1].message.find("has ended"), std::string::npos) << told[1].message;
}

// What only an element tells, all workers find out together.
TEST(Workers, LookAtElementsTogether) {
  for (const auto policy : {AutoShardPolicy::Data, AutoShardPolicy::Hint}) {
    const auto found = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
      const auto calls = std::make_shared<int64_t>(0);
      const auto numbers = range(8).map([calls](Tensor x) { return x * 10 + (*calls)++; });
      const auto parts =
          policy == AutoShardPolicy::Hint ? numbers.shard(data::kShardHint, 0) : numbers;
      const auto dist = strategy.distribute_dataset(with_policy(parts.batch(2), policy),
                                                    {.fetch_to_device = false});
      EXPECT_ERROR(Code::FailedPrecondition, "take a step", dist.element_spec());
      auto it = dist.iterator();
      EXPECT_EQ(it.element_spec().to_string(), "int64 (None,)");
      const Steps steps = rest_of(it);
      EXPECT_EQ(dist.element_spec().to_string(), "int64 (None,)");
      return steps;
    });
    EXPECT_EQ(all_samples(found), (std::vector<int64_t>{0, 11, 22, 33, 44, 55, 66, 77}));
  }
}

TEST(Workers, MustHaveEquallyManyReplicas) {
  WorkerRendezvous rendezvous(2);
  const auto build = [&](const InputContext& context, int devices) {
    feeding(context, devices, rendezvous).distribute_dataset(range(4).batch(2));
  };
  EXPECT_ERROR(Code::InvalidArgument, "FeedingStrategy", build(InputContext(2, 0, 3), 1));
  EXPECT_ERROR(Code::InvalidArgument, "3 devices", build(InputContext(2, 0, 4), 3));
  EXPECT_ERROR(Code::InvalidArgument, "worker 2 of 2", build(InputContext(2, 2, 4), 2));
}

}  // namespace
}  // namespace cohort
