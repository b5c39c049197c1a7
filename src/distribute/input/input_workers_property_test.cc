// Who gets which samples, for clusters and datasets made up at random.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "cohort/strategy_extended.h"
#include "support/feeding_workers.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using data::range;

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
  RC_ASSERT(all_samples(found) == data::numbers(range(count)));
  check_full_steps(found, batch);
}

RC_GTEST_PROP(Workers, WithoutShardingEachGetsEverySampleOnce, ()) {
  const Cluster cluster = some_cluster();
  const auto batch = *rc::gen::inRange<int64_t>(1, 13);
  const auto count = *rc::gen::inRange<int64_t>(0, 50);
  const std::vector<Steps> found =
      distribute(cluster, AutoShardPolicy::Off, range(count).batch(batch));
  for (const Steps& steps : found) {
    RC_ASSERT(all_samples({steps}) == data::numbers(range(count)));
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
  RC_ASSERT(all_samples(found) == data::numbers(range(next)));
  for (const Steps& steps : found) RC_ASSERT(steps.size() == found[0].size());
}

using data::Dataset;

// A stage, or several, on a dataset of numbers. `seed` is the user's, if there is one.
struct StageCase {
  const char* name;
  Dataset (*add)(const Dataset& dataset, std::optional<uint64_t> seed);
  bool splits_files = true;  // whether files before it can be divided
};

Dataset numbers_around(int64_t x, std::optional<uint64_t> seed) {
  return range(4 * x, 4 * x + 4).shuffle(4, {.seed = seed});
}

constexpr StageCase kStages[] = {
    {"none", [](const Dataset& d, std::optional<uint64_t>) { return d; }},
    {"shuffle",
     [](const Dataset& d, std::optional<uint64_t> seed) { return d.shuffle(100, {.seed = seed}); }},
    {"small shuffle",
     [](const Dataset& d, std::optional<uint64_t> seed) { return d.shuffle(3, {.seed = seed}); }},
    {"shuffle, once and for all",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.shuffle(100, {.seed = seed, .reshuffle_each_iteration = false});
     }},
    {"shuffle and repeat",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.shuffle(100, {.seed = seed}).repeat(2);
     }},
    {"shuffle and cache",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.shuffle(100, {.seed = seed}).cache();
     }},
    {"shuffle and cache in a file",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.shuffle(100, {.seed = seed}).cache(data::new_cache_file());
     }},
    {"shuffle, cache and repeat",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.shuffle(100, {.seed = seed}).cache().repeat(2);
     }},
    {"cache and shuffle",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.cache().shuffle(100, {.seed = seed}).prefetch(2);
     }},
    {"sample_from",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return data::sample_from({d, range(1000, 1020)}, {.weights = {2, 1}, .seed = seed});
     },
     false},
    {"flat_map with shuffles",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.flat_map([seed](int64_t x) { return numbers_around(x, seed); });
     },
     false},
    {"interleave with shuffles",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.shuffle(100, {.seed = seed})
           .interleave([seed](int64_t x) { return numbers_around(x, seed); },
                       {.cycle = 3, .parallel = 2});
     },
     false},
    {"nested flat_map",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.flat_map([seed](int64_t x) {
         return range(2 * x, 2 * x + 2).shuffle(2, {.seed = seed}).flat_map([seed](int64_t y) {
           return numbers_around(y, seed);
         });
       });
     },
     false},
    {"two walks over one shuffle",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       const Dataset both = d.shuffle(100, {.seed = seed});
       return both.concatenate(both.map([](int64_t x) { return x + 1000; }));
     }},
    {"parallel map in any order",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.shuffle(100, {.seed = seed})
           .map([](int64_t x) { return x; }, {
                                                 .parallel = 3,
                                                 .deterministic = false,
                                             });
     }},
    {"all stages in any order",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.options({.deterministic = false})
           .map([](Tensor x) { return x; }, {.parallel = 3})
           .batch(3, {.parallel = 2})
           .shuffle(4, {.seed = seed})
           .unbatch();
     }},
    {"window and filter",
     [](const Dataset& d, std::optional<uint64_t> seed) {
       return d.window(3)
           .flat_map([seed](Dataset window) { return window.shuffle(3, {.seed = seed}); })
           .filter([](int64_t x) { return x % 5 != 0; });
     },
     false},
    {"a declared generator",
     [](const Dataset&, std::optional<uint64_t> seed) {
       const auto start = [] {
         return [i = int64_t{0}]() mutable -> std::optional<data::Element> {
           if (i == 30) return std::nullopt;
           return data::Element(i++);
         };
       };
       return data::generator(start, data::ElementSpec(TensorSpec{kInt64, {}}))
           .shuffle(30, {.seed = seed});
     },
     false},
};

// What each worker gets in two passes. Every worker makes its own dataset, as processes do, and the
// first one looks at it beforehand.
std::vector<std::vector<Steps>> two_passes(const Cluster& cluster, const StageCase& stage,
                                           std::optional<uint64_t> seed,
                                           const std::function<Dataset(Dataset)>& finish,
                                           const std::function<Dataset()>& source) {
  return on_all_workers(cluster, [&](Strategy& strategy) {
    const Dataset before = stage.add(source(), seed);
    if (strategy.extended().input_context().input_pipeline_id() == 0) (void)*before.begin();
    const DistributedDataset dist = strategy.distribute_dataset(finish(before));
    return std::vector<Steps>{steps_of(dist), steps_of(dist)};
  });
}

std::vector<Steps> of_pass(const std::vector<std::vector<Steps>>& workers, size_t pass) {
  std::vector<Steps> steps;
  for (const auto& passes : workers) steps.push_back(passes[pass]);
  return steps;
}

template <typename Check>
void for_each_case(const Check& check) {
  for (int workers = 1; workers <= 4; ++workers) {
    for (const StageCase& stage : kStages) {
      for (const bool seeded : {true, false}) {
        const Cluster cluster{.workers = workers, .replicas_per_worker = workers % 2 + 1};
        SCOPED_TRACE(fmt::format("{} workers with {} replicas, {}, {}", workers,
                                 cluster.replicas_per_worker, stage.name,
                                 seeded ? "seeded" : "unseeded"));
        check(cluster, stage, seeded ? std::optional<uint64_t>(17) : std::nullopt);
      }
    }
  }
}

Dataset source_in_memory() { return range(37); }

std::vector<int64_t> expected_of(const StageCase& stage, const Dataset& source) {
  std::vector<int64_t> all = data::numbers(stage.add(source, 17));
  std::ranges::sort(all);
  return all;
}

// Every stage with every policy that deals elements out.
TEST(EveryStage, GivesEachSampleOnceWhereElementsAreDivided) {
  for_each_case([](const Cluster& cluster, const StageCase& stage, std::optional<uint64_t> seed) {
    const std::vector<int64_t> expected = expected_of(stage, source_in_memory());
    for (const auto policy :
         {AutoShardPolicy::Data, AutoShardPolicy::Auto, AutoShardPolicy::Hint}) {
      const auto finish = [&](const Dataset& d) {
        const bool hint = policy == AutoShardPolicy::Hint;
        return with_policy((hint ? d.shard(data::kShardHint, 0) : d).batch(4), policy);
      };
      const auto found = two_passes(cluster, stage, seed, finish, source_in_memory);
      for (const size_t pass : {0u, 1u}) {
        EXPECT_EQ(all_samples(of_pass(found, pass)), expected)
            << "policy " << static_cast<int>(policy) << ", pass " << pass;
      }
    }
  });
}

TEST(EveryStage, GivesEachWorkerEachSampleWhereNothingIsDivided) {
  for_each_case([](const Cluster& cluster, const StageCase& stage, std::optional<uint64_t> seed) {
    const std::vector<int64_t> expected = expected_of(stage, source_in_memory());
    const auto finish = [](const Dataset& d) {
      return with_policy(d.batch(4), AutoShardPolicy::Off);
    };
    const auto found = two_passes(cluster, stage, seed, finish, source_in_memory);
    for (const size_t pass : {0u, 1u}) {
      for (const auto& passes : found) EXPECT_EQ(all_samples({passes[pass]}), expected);
      for (size_t step = 0; step < expected.size() / 4; ++step) {
        EXPECT_EQ(samples_in_step(of_pass(found, pass), step), 4) << "step " << step;
      }
    }
  });
}

// A pass that breaks off leaves caches as far as each worker's threads came; then a worker is
// started again.
TEST(EveryStage, GivesEachSampleOnceAfterABreakAndARestart) {
  for_each_case([](const Cluster& cluster, const StageCase& stage, std::optional<uint64_t> seed) {
    const std::vector<int64_t> expected = expected_of(stage, source_in_memory());
    for (const int restarted : {0, cluster.workers - 1}) {
      const auto found = on_all_workers(cluster, [&](Strategy& strategy) {
        const auto distributed = [&] {
          return strategy.distribute_dataset(
              with_policy(stage.add(source_in_memory(), seed).batch(4), AutoShardPolicy::Data));
        };
        const DistributedDataset before = distributed();
        {
          auto it = before.iterator();
          for (int step = 0; step < 5; ++step) it.next();
        }
        pass_of(before, 1);
        const DistributedDataset after = worker_of(strategy) == restarted ? distributed() : before;
        return std::vector<Steps>{pass_of(after, 2), pass_of(after, 3)};
      });
      for (const size_t pass : {0u, 1u}) {
        EXPECT_EQ(all_samples(of_pass(found, pass)), expected) << restarted << ", pass " << pass;
      }
    }
  });
}

Dataset own_part(const Dataset& dataset, const InputContext& input) {
  return dataset.shard(input.num_input_pipelines(), input.input_pipeline_id()).batch(4);
}

TEST(EveryStage, GivesEachSampleOnceWherePipelinesDivideThemselves) {
  for_each_case([](const Cluster& cluster, const StageCase& stage, std::optional<uint64_t> seed) {
    const std::vector<int64_t> expected = expected_of(stage, source_in_memory());
    const auto found = on_all_workers(cluster, [&](Strategy& strategy) {
      const auto dist = strategy.distribute_datasets_from_function([&](const InputContext& input) {
        return own_part(stage.add(source_in_memory(), seed), input);
      });
      return std::vector<Steps>{steps_of(dist), steps_of(dist)};
    });
    const auto replicas = mirrored(cluster.workers);
    const auto dist = replicas->distribute_datasets_from_function(
        [&](const InputContext& input) {
          return own_part(stage.add(source_in_memory(), seed), input);
        },
        {.replication_mode = InputReplicationMode::PerReplica});
    for (const size_t pass : {0u, 1u}) {
      EXPECT_EQ(all_samples(of_pass(found, pass)), expected) << pass;
      EXPECT_EQ(all_samples({steps_of(dist)}), expected) << pass;
    }
  });
}

TEST(EveryStage, GivesEachSampleOnceWhereFilesAreDivided) {
  const NumberFiles files({{0, 1, 2, 3, 4}, {5}, {6, 7, 8}, {9, 10, 11, 12}, {13, 14}, {15}});
  for_each_case([&](const Cluster& cluster, const StageCase& stage, std::optional<uint64_t> seed) {
    const auto source = [&] { return files.dataset(); };
    for (const auto policy : {AutoShardPolicy::File, AutoShardPolicy::Auto}) {
      // Elsewhere File is refused, and Auto means Data.
      if (policy == AutoShardPolicy::File && !stage.splits_files) continue;
      const auto finish = [&](const Dataset& d) { return with_policy(d.batch(4), policy); };
      const auto found = two_passes(cluster, stage, seed, finish, source);
      for (const size_t pass : {0u, 1u}) {
        EXPECT_EQ(all_samples(of_pass(found, pass)), expected_of(stage, source()))
            << "policy " << static_cast<int>(policy) << ", pass " << pass;
      }
    }
  });
}

}  // namespace
}  // namespace cohort
