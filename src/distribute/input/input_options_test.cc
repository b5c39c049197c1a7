// InputOptions, and what input functions are told.

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "cohort/strategy_extended.h"
#include "support/distributed_steps.h"

namespace cohort {
namespace {

using data::range;

constexpr InputOptions kPerReplica{.replication_mode = InputReplicationMode::PerReplica};

// "pipelines/id/replicas" of each call.
std::vector<std::string> contexts(Strategy& strategy, const InputOptions& options = {}) {
  std::vector<std::string> all;
  strategy.distribute_datasets_from_function(
      [&](const InputContext& input) {
        all.push_back(fmt::format("{}/{}/{}", input.num_input_pipelines(),
                                  input.input_pipeline_id(), input.num_replicas_in_sync()));
        return range(1);
      },
      options);
  return all;
}

TEST(InputFunction, IsToldAboutThePipelines) {
  using Calls = std::vector<std::string>;
  OneDeviceStrategy one("CPU:0");
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  EXPECT_EQ(contexts(get_strategy()), (Calls{"1/0/1"}));
  EXPECT_EQ(contexts(one), (Calls{"1/0/1"}));
  EXPECT_EQ(contexts(*mirrored(3)), (Calls{"1/0/3"}));
  EXPECT_EQ(contexts(central), (Calls{"1/0/2"}));
  EXPECT_EQ(contexts(*mirrored(3), kPerReplica), (Calls{"3/0/3", "3/1/3", "3/2/3"}));
}

TEST(PerReplicaMode, GivesEachReplicaAPipelineOfItsOwn) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_datasets_from_function(
      [](const InputContext& input) {
        const int64_t first = 10 * input.input_pipeline_id();
        return range(first, first + 2 + input.input_pipeline_id()).batch(1);
      },
      kPerReplica);
  EXPECT_EQ(steps_of(dist), (Steps{{{0}, {10}}, {{1}, {11}}, {{}, {12}}}));
  EXPECT_EQ(dist.cardinality(), data::kUnknownCardinality);
}

TEST(PerReplicaMode, ShufflesDividedElementsInOneOrder) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_datasets_from_function(
      [](const InputContext& input) {
        return range(60)
            .shuffle(60)
            .shard(input.num_input_pipelines(), input.input_pipeline_id())
            .batch(5);
      },
      kPerReplica);
  const Steps first = steps_of(dist);
  const Steps second = steps_of(dist);
  EXPECT_EQ(all_samples({first}), data::numbers(range(60)));
  EXPECT_EQ(all_samples({second}), data::numbers(range(60)));
  EXPECT_NE(first, second);
}

// The second pipeline, which has fewer elements, comes to its end one step before the first.
TEST(PerReplicaMode, CachesDividedElementsInOneOrder) {
  const auto strategy = mirrored(2);
  InputOptions options = kPerReplica;
  options.fetch_to_device = false;
  const auto dist = strategy->distribute_datasets_from_function(
      [](const InputContext& input) {
        return range(11)
            .shuffle(11, {.seed = 3})
            .cache()
            .shard(input.num_input_pipelines(), input.input_pipeline_id())
            .batch(1);
      },
      options);
  auto it = dist.iterator();
  for (int step = 0; step < 6; ++step) it.next();
  EXPECT_EQ(all_samples({steps_of(dist)}), data::numbers(range(11)));
}

TEST(PerReplicaMode, ChangesNoLaterCall) {
  const auto strategy = mirrored(2);
  contexts(*strategy, kPerReplica);
  EXPECT_EQ(contexts(*strategy).size(), 1u);
}

TEST(PerReplicaMode, IsForFunctionsOfMirroredStrategiesOnly) {
  const auto strategy = mirrored(2);
  EXPECT_ERROR(Code::Unimplemented, "PerReplica",
               strategy->distribute_dataset(range(4).batch(2), kPerReplica));
  OneDeviceStrategy one("CPU:0");
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  EXPECT_ERROR(Code::Unimplemented, "OneDeviceStrategy", contexts(one, kPerReplica));
  EXPECT_ERROR(Code::Unimplemented, "CentralStorageStrategy", contexts(central, kPerReplica));
  EXPECT_ERROR(Code::Unimplemented, "PerReplica", contexts(get_strategy(), kPerReplica));
}

TEST(PlaceDatasetOnDevice, NeedsPipelinesPerReplicaAndNoFetching) {
  const auto strategy = mirrored(2);
  const InputOptions placed{.place_dataset_on_device = true};
  EXPECT_ERROR(Code::InvalidArgument, "PerReplica", contexts(*strategy, placed));
  EXPECT_ERROR(Code::InvalidArgument, "PerReplica",
               strategy->distribute_dataset(range(4).batch(2), placed));
  InputOptions both = kPerReplica;
  both.place_dataset_on_device = true;
  EXPECT_ERROR(Code::InvalidArgument, "fetch_to_device", contexts(*strategy, both));
}

TEST(PlaceDatasetOnDevice, MakesElementsThere) {
  const auto strategy = mirrored(2);
  const std::vector<std::string> devices = strategy->extended().worker_devices();
  InputOptions options = kPerReplica;
  options.place_dataset_on_device = true;
  options.fetch_to_device = false;
  auto it =
      strategy
          ->distribute_datasets_from_function(
              [&](const InputContext& input) {
                const Tensor made({1.f});
                EXPECT_EQ(made.device(), devices[static_cast<size_t>(input.input_pipeline_id())]);
                return range(2).batch(1);
              },
              options)
          .iterator();
  EXPECT_EQ(it.next()[1].tensor().device(), devices[1]);
}

TEST(InputFunction, IsCalledOnTheHost) {
  const auto strategy = mirrored(2);
  strategy->distribute_datasets_from_function(
      [&](const InputContext&) {
        EXPECT_EQ(Tensor({1.f}).device(), strategy->extended().worker_devices()[0]);
        return range(2).batch(1);
      },
      kPerReplica);
}

TEST(InputOptions, CentralStorageTakesThemToo) {
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  const auto dist = central.distribute_dataset(range(4).batch(4), {.fetch_to_device = false});
  EXPECT_EQ(steps_of(dist), (Steps{{{0, 1}, {2, 3}}}));
}

// Counts the elements that were made.
class Counter {
 public:
  data::Dataset dataset() {
    return range(100).map([this](int64_t x) {
      const std::lock_guard lock(mutex_);
      ++made_;
      changed_.notify_all();
      return x;
    });
  }
  bool wait_for(int64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return made_ >= count; });
  }
  int64_t made() {
    const std::lock_guard lock(mutex_);
    return made_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t made_ = 0;
};

DistributedDataset counted(Strategy& strategy, Counter& counter, int buffer) {
  return strategy.distribute_datasets_from_function(
      [&](const InputContext&) { return counter.dataset(); }, {.per_replica_buffer_size = buffer});
}

TEST(PerReplicaBuffer, OfZeroMakesNothingInAdvance) {
  const auto strategy = mirrored(2);
  Counter counter;
  auto it = counted(*strategy, counter, 0).iterator();
  it.next();
  EXPECT_EQ(counter.made(), 2);
}

TEST(PerReplicaBuffer, HoldsThatManyElementsForEachReplica) {
  const auto strategy = mirrored(2);
  Counter counter;
  auto it = counted(*strategy, counter, 3).iterator();
  it.next();
  EXPECT_TRUE(counter.wait_for(2 + 2 * 3));
  EXPECT_ERROR(Code::InvalidArgument,
               "per_replica_buffer_size must be 0 (no buffer) or more, got -1",
               counted(*strategy, counter, -1));
}

}  // namespace
}  // namespace cohort
