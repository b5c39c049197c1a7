// The order in which the workers see one dataset: seeds, caches and the numbers of passes.

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "support/feeding_workers.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using data::range;

TEST(Workers, ShuffleInOneOrderThatNobodyChose) {
  const auto found = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    return steps_of(strategy.distribute_dataset(range(100).shuffle(100).batch(10)));
  });
  EXPECT_EQ(all_samples(found), data::numbers(range(100)));
}

TEST(Workers, TakeTheChiefsSeedsInTheirOwnPipelinesToo) {
  const auto found = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    return steps_of(strategy.distribute_datasets_from_function([](const InputContext& input) {
      return range(60).shuffle(60).shard(2, input.input_pipeline_id()).batch(5);
    }));
  });
  EXPECT_EQ(all_samples(found), data::numbers(range(60)));
}

// A look at the data by the chief alone, before and between the passes, changes nothing.
TEST(Workers, LoseNothingWhenTheChiefPeeks) {
  for (const bool seeded : {true, false}) {
    for (const bool cached : {true, false}) {
      const auto found = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
        const auto seed = seeded ? std::optional<uint64_t>(7) : std::nullopt;
        const auto shuffled = range(40).shuffle(40, {.seed = seed});
        const auto dataset = (cached ? shuffled.cache() : shuffled).batch(4);
        const auto peek = [&] {
          if (worker_of(strategy) != 0) return;
          (void)*dataset.begin();
          (void)data::rows(dataset);
        };
        peek();
        const auto dist = strategy.distribute_dataset(dataset);
        if (worker_of(strategy) == 0) (void)dist.element_spec();
        std::vector<Steps> passes;
        for (int pass = 0; pass < 2; ++pass) {
          peek();
          passes.push_back(steps_of(dist));
        }
        return passes;
      });
      for (const size_t pass : {0u, 1u}) {
        EXPECT_EQ(all_samples({found[0][pass], found[1][pass]}), data::numbers(range(40)))
            << seeded << cached << pass;
      }
      EXPECT_EQ(found[0][0] == found[0][1], cached) << "each pass is shuffled anew";
    }
  }
}

TEST(Workers, ShuffleAnewWhenADatasetIsDistributedAgain) {
  const auto found = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    const auto dataset = range(40).shuffle(40, {.seed = 3}).batch(4);
    std::vector<Steps> passes;
    for (int epoch = 0; epoch < 3; ++epoch) {
      passes.push_back(steps_of(strategy.distribute_dataset(dataset)));
    }
    return passes;
  });
  for (const size_t epoch : {0u, 1u, 2u}) {
    EXPECT_EQ(all_samples({found[0][epoch], found[1][epoch]}), data::numbers(range(40)));
  }
  EXPECT_NE(found[0][0], found[0][1]);
  EXPECT_NE(found[0][1], found[0][2]);
}

// One worker and several see the samples in one order, the first time and later.
TEST(Workers, SeeTheOrderThatOneWorkerSees) {
  const auto passes = [](int workers) {
    return on_all_workers({.workers = workers}, [](Strategy& strategy) {
      const auto dist = strategy.distribute_dataset(
          with_policy(range(24).shuffle(24, {.seed = 5}).batch(4), AutoShardPolicy::Off));
      return std::vector{samples_of(steps_of(dist)), samples_of(steps_of(dist))};
    })[0];
  };
  EXPECT_EQ(passes(1), passes(3));
}

TEST(Workers, GoOnWithThePassesAfterARestart) {
  const auto make = [] { return range(24).shuffle(24, {.seed = 5}).batch(4); };
  const auto found = on_all_workers({.workers = 2}, [&](Strategy& strategy) {
    const auto before = strategy.distribute_dataset(make());
    steps_of(before);
    auto it = before.iterator();
    it.next();
    const std::string position = it.save();
    std::vector<Steps> rest = {rest_of(it), steps_of(before)};
    const auto after = strategy.distribute_dataset(make());
    EXPECT_EQ(rest_of(after.iterator(position)), rest[0]);
    EXPECT_EQ(steps_of(after), rest[1]);
    return rest[1];
  });
  EXPECT_EQ(all_samples(found), data::numbers(range(24)));
}

TEST(Workers, GoOnAfterTheEndOfAPass) {
  const auto make = [] { return range(24).shuffle(24, {.seed = 5}).batch(4); };
  on_all_workers({.workers = 2}, [&](Strategy& strategy) {
    const auto before = strategy.distribute_dataset(make());
    auto it = before.iterator();
    rest_of(it);
    const std::string end = it.save();
    const auto after = strategy.distribute_dataset(make());
    EXPECT_EQ(rest_of(after.iterator(end)), Steps{});
    EXPECT_EQ(steps_of(after), steps_of(before));
    return 0;
  });
}

// Copies of one order would make each step of the workers the same samples several times.
TEST(Workers, ShuffleByTheirOwnSeedsWhereNothingIsDivided) {
  const auto found = on_all_workers({.workers = 2}, [](Strategy& strategy) {
    const auto orders = [&](std::optional<uint64_t> seed) {
      const auto dataset = range(64).shuffle(64, {.seed = seed}).batch(8);
      return std::vector{
          steps_of(strategy.distribute_dataset(with_policy(dataset, AutoShardPolicy::Off))),
          steps_of(strategy.distribute_datasets_from_function(
              [&](const InputContext&) { return dataset; }))};
    };
    return std::vector{orders(std::nullopt), orders(3)};
  });
  for (const size_t way : {0u, 1u}) {
    const Steps& here = found[0][0][way];
    const Steps& there = found[1][0][way];
    EXPECT_EQ(all_samples({here}), data::numbers(range(64)));
    EXPECT_EQ(all_samples({there}), data::numbers(range(64)));
    EXPECT_NE(samples_of(here), samples_of(there));
  }
  EXPECT_EQ(found[0][1][1], found[1][1][1]) << "the user chose this seed";
}

// Two later passes of two workers give each of 40 numbers once, and the same order both times.
void expect_one_cached_order(const std::vector<std::vector<Steps>>& found) {
  for (const size_t pass : {0u, 1u}) {
    EXPECT_EQ(all_samples({found[0][pass], found[1][pass]}), data::numbers(range(40)));
  }
  EXPECT_EQ(found[0][0], found[0][1]);
}

TEST(Caches, OfARestartedWorkerHoldThePassOfTheChief) {
  for (const bool seeded : {true, false}) {
    for (const int restarted : {0, 1}) {
      SCOPED_TRACE(fmt::format("worker {}, {}", restarted, seeded ? "seeded" : "unseeded"));
      expect_one_cached_order(on_all_workers({.workers = 2}, [&](Strategy& strategy) {
        const auto seed = seeded ? std::optional<uint64_t>(5) : std::nullopt;
        const auto distributed = [&] {
          return strategy.distribute_dataset(
              range(40).shuffle(40, {.seed = seed}).cache().batch(4));
        };
        const auto before = distributed();
        pass_of(before, 0);
        const auto after = worker_of(strategy) == restarted ? distributed() : before;
        return std::vector{pass_of(after, 1), pass_of(after, 2)};
      }));
    }
  }
}

TEST(Caches, OfAWorkerThatFailedHoldThePassOfTheChief) {
  for (const int failing : {0, 1}) {
    SCOPED_TRACE(failing);
    expect_one_cached_order(on_all_workers({.workers = 2}, [&](Strategy& strategy) {
      const auto fails = std::make_shared<std::atomic<bool>>(worker_of(strategy) == failing);
      const auto once = [fails](Tensor x) {
        if (x.to<int64_t>() == 7 && fails->exchange(false)) throw std::runtime_error("once");
        return x;
      };
      const auto dist = strategy.distribute_dataset(
          range(40).shuffle(40, {.seed = 5}).map(once).cache().batch(4));
      auto it = dist.iterator();
      bool ended = false;
      while (!ended) {
        const Status outcome = capture_status([&] { ended = !it.next_optional(); });
        EXPECT_TRUE(outcome.ok() || !*fails) << outcome.to_string();
      }
      EXPECT_FALSE(*fails);
      return std::vector{steps_of(dist), steps_of(dist)};
    }));
  }
}

TEST(Caches, InAFileOfOneWorkerHoldThePassOfTheChief) {
  for (const int owner : {0, 1}) {
    SCOPED_TRACE(owner);
    const data::TemporaryDirectory directory;
    expect_one_cached_order(on_all_workers({.workers = 2}, [&](Strategy& strategy) {
      const int own = worker_of(strategy);
      const auto dataset = range(40)
                               .shuffle(40, {.seed = 5})
                               .cache(directory.path("cache" + std::to_string(own)))
                               .batch(4);
      if (own == owner) {
        (void)*dataset.begin();
        (void)data::rows(dataset);  // writes the order of the second iterator
      }
      const auto dist = strategy.distribute_dataset(dataset);
      return std::vector{steps_of(dist), steps_of(dist)};
    }));
  }
}

}  // namespace
}  // namespace cohort
