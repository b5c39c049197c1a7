// How batches come to the replicas of one process.

#include <sstream>

#include "cohort/strategy_extended.h"
#include "support/distributed_steps.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using data::range;

Steps cut_per_batch(const data::Dataset& dataset, int replicas) {
  const auto strategy = mirrored(replicas);
  return steps_of(strategy->distribute_dataset(dataset));
}
Steps cut_to_equal_sizes(const data::Dataset& dataset, int replicas) {
  return cut_per_batch(with_policy(dataset, AutoShardPolicy::Off), replicas);
}

template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value << '\n';
  return out.str();
}

TEST(DistributeDataset, GivesEachReplicaItsPart) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);
  std::string all;
  for (auto x : strategy.distribute_dataset(dataset)) all += printed(x);
  EXPECT_EQ(all,
            "PerReplica:{\n"
            "  0: Tensor([5.], shape=(1,), dtype=float32),\n"
            "  1: Tensor([6.], shape=(1,), dtype=float32)\n"
            "}\n"
            "PerReplica:{\n"
            "  0: Tensor([7.], shape=(1,), dtype=float32),\n"
            "  1: Tensor([8.], shape=(1,), dtype=float32)\n"
            "}\n");
}

TEST(DistributeDataset, ElementsAreReducedOverReplicas) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);
  auto dist = strategy.distribute_dataset(dataset);
  auto it = dist.begin();
  EXPECT_EQ(printed(strategy.reduce(ReduceOp::Sum, *it, /*axis=*/0)),
            "Tensor(11., shape=(), dtype=float32)\n");
}

TEST(DistributeDatasetsFromFunction, TakesBatchesOfReplicasAsTheyAre) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto dist = strategy.distribute_datasets_from_function([](const InputContext& input) {
    int64_t batch = input.get_per_replica_batch_size(4);
    return range(8).batch(4).unbatch().batch(batch).prefetch(2);
  });
  std::string all;
  for (auto x : dist) all += printed(x);
  EXPECT_EQ(all,
            "PerReplica:{\n"
            "  0: Tensor([0 1], shape=(2,), dtype=int64),\n"
            "  1: Tensor([2 3], shape=(2,), dtype=int64)\n"
            "}\n"
            "PerReplica:{\n"
            "  0: Tensor([4 5], shape=(2,), dtype=int64),\n"
            "  1: Tensor([6 7], shape=(2,), dtype=int64)\n"
            "}\n");
}

// What the guides of tf.distribute show.
TEST(DistributeDataset, CutsInMemoryBatchesOneByOne) {
  EXPECT_EQ(cut_per_batch(range(10).batch(4), 2),
            (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {9}}}));
  EXPECT_EQ(cut_per_batch(range(8).batch(4), 3),
            (Steps{{{0, 1}, {2, 3}, {}}, {{4, 5}, {6, 7}, {}}}));
  EXPECT_EQ(cut_per_batch(range(10).batch(5), 3),
            (Steps{{{0, 1}, {2, 3}, {4}}, {{5, 6}, {7, 8}, {9}}}));
}

TEST(DistributeDataset, CutsUnevenBatchesOneByOne) {
  EXPECT_EQ(cut_per_batch(range(14).batch(7), 3),
            (Steps{{{0, 1, 2}, {3, 4, 5}, {6}}, {{7, 8, 9}, {10, 11, 12}, {13}}}));
  EXPECT_EQ(cut_per_batch(range(9).batch(6), 2), (Steps{{{0, 1, 2}, {3, 4, 5}}, {{6, 7}, {8}}}));
  EXPECT_EQ(cut_per_batch(range(6).batch(3), 4), (Steps{{{0}, {1}, {2}, {}}, {{3}, {4}, {5}, {}}}));
  EXPECT_EQ(cut_per_batch(range(5).batch(3).repeat(2), 2),
            (Steps{{{0, 1}, {2}}, {{3}, {4}}, {{0, 1}, {2}}, {{3}, {4}}}));
}

TEST(DistributeDataset, WithoutDataShardingCutsTheStreamIntoEqualSizes) {
  EXPECT_EQ(cut_to_equal_sizes(range(14).batch(7), 3),
            (Steps{{{0, 1, 2}, {3, 4}, {5, 6}}, {{7, 8, 9}, {10, 11}, {12, 13}}}));
  EXPECT_EQ(cut_to_equal_sizes(range(9).batch(6), 2),
            (Steps{{{0, 1, 2}, {3, 4, 5}}, {{6, 7, 8}, {}}}));
  EXPECT_EQ(cut_to_equal_sizes(range(6).batch(3), 4),
            (Steps{{{0}, {1}, {2}, {}}, {{3}, {4}, {5}, {}}}));
  EXPECT_EQ(cut_to_equal_sizes(range(5).batch(3).repeat(2), 2),
            (Steps{{{0, 1}, {2}}, {{3, 4}, {0}}, {{1, 2}, {3}}, {{4}, {}}}));
}

TEST(DistributeDataset, ThePolicyDecidesHowBatchesAreCut) {
  data::TemporaryDirectory directory;
  const std::string file = directory.file("a", "0\n1\n2\n3\n4\n5\n6\n");
  const data::Dataset lines = data::text_lines(file)
                                  .map([](std::string line) { return int64_t{std::stol(line)}; })
                                  .batch(7);
  const Steps equal = {{{0, 1, 2}, {3, 4}, {5, 6}}};
  const Steps by_batch = {{{0, 1, 2}, {3, 4, 5}, {6}}};
  for (const auto policy : {AutoShardPolicy::Off, AutoShardPolicy::Hint, AutoShardPolicy::File,
                            AutoShardPolicy::Auto}) {
    EXPECT_EQ(cut_per_batch(with_policy(lines, policy), 3), equal) << static_cast<int>(policy);
  }
  EXPECT_EQ(cut_per_batch(with_policy(lines, AutoShardPolicy::Data), 3), by_batch);
  EXPECT_EQ(cut_per_batch(range(7).batch(7), 3), by_batch);
}

TEST(DistributeDataset, AnUnknownBatchSizeIsCutBatchByBatch) {
  const auto mapped = range(9).batch(6).map([](Tensor x) { return x; });
  EXPECT_EQ(cut_to_equal_sizes(mapped, 2), (Steps{{{0, 1, 2}, {3, 4, 5}}, {{6, 7}, {8}}}));
}

TEST(DistributeDataset, RefusesElementsThatAreNoBatches) {
  const auto strategy = mirrored(2);
  EXPECT_ERROR(Code::InvalidArgument, "call batch()", strategy->distribute_dataset(range(4)));
  const auto opaque = range(4).map([](Tensor x) { return x; });
  EXPECT_ERROR(Code::InvalidArgument, "call batch()",
               steps_of(strategy->distribute_dataset(opaque)));
}

TEST(DistributeDataset, OneReplicaGetsTheDatasetAsItIs) {
  OneDeviceStrategy strategy("CPU:0");
  std::string all;
  for (auto x : strategy.distribute_dataset(range(2))) all += printed(x);
  EXPECT_EQ(all, "Tensor(0, shape=(), dtype=int64)\nTensor(1, shape=(), dtype=int64)\n");
  EXPECT_EQ(steps_of(mirrored(1)->distribute_dataset(range(5).batch(3))),
            (Steps{{{0, 1, 2}}, {{3, 4}}}));
}

TEST(DistributeDataset, TheDefaultStrategyPassesDatasetsThrough) {
  std::string all;
  for (auto x : get_strategy().distribute_dataset(range(2))) all += printed(x);
  EXPECT_EQ(all, "Tensor(0, shape=(), dtype=int64)\nTensor(1, shape=(), dtype=int64)\n");
  const auto dist = get_strategy().distribute_datasets_from_function([](const InputContext& input) {
    EXPECT_EQ(input.num_input_pipelines(), 1);
    EXPECT_EQ(input.num_replicas_in_sync(), 1);
    return range(3).batch(2);
  });
  EXPECT_EQ(steps_of(dist), (Steps{{{0, 1}}, {{2}}}));
  // The dataset gives the same elements inside the scope of another strategy.
  const auto strategy = mirrored(2);
  const auto scope = strategy->scope();
  EXPECT_EQ(steps_of(dist), (Steps{{{0, 1}}, {{2}}}));
}

TEST(DistributeDataset, ElementsAreOnTheDevicesOfTheReplicas) {
  const auto strategy = mirrored(2);
  const auto dataset =
      data::from_tensor_slices(Tensor({1.f, 2.f}), Tensor({std::string("a"), std::string("b")}))
          .batch(2);
  const auto element = strategy->distribute_dataset(dataset).iterator().next();
  for (size_t replica = 0; replica < 2; ++replica) {
    for (const Tensor& tensor : element[replica].tensors()) {
      EXPECT_EQ(tensor.device(), strategy->extended().worker_devices()[replica]);
    }
  }
  EXPECT_EQ(element[1][1].to<std::string>(), "b");
  const auto on_host =
      strategy->distribute_dataset(dataset, {.fetch_to_device = false}).iterator().next();
  EXPECT_EQ(on_host[1][0].tensor().device(), strategy->extended().worker_devices()[0]);
}

TEST(DistributeDataset, TellsItsCardinalityAndSpec) {
  const auto strategy = mirrored(2);
  const auto uneven = strategy->distribute_dataset(range(10).batch(4));
  EXPECT_EQ(uneven.cardinality(), 3);
  EXPECT_EQ(uneven.element_spec().to_string(), "int64 (None,)");
  EXPECT_EQ(uneven.iterator().element_spec().to_string(), "int64 (None,)");
  const auto even = strategy->distribute_dataset(range(10).batch(4, {.drop_remainder = true}));
  EXPECT_EQ(even.cardinality(), 2);
  EXPECT_EQ(even.element_spec().to_string(), "int64 (2,)");
  EXPECT_EQ(strategy->distribute_dataset(range(4).batch(2).repeat()).cardinality(),
            data::kInfinite);
  const auto opaque = range(4).batch(2).map([](Tensor x) { return x; });
  EXPECT_EQ(strategy->distribute_dataset(opaque).element_spec().to_string(), "int64 (None,)");
  EXPECT_ERROR(Code::FailedPrecondition, "is unknown: a stage runs",
               strategy->distribute_dataset(opaque.take(0)).element_spec());
}

TEST(DistributeDataset, ReduceFoldsOverAllSteps) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_dataset(range(5).batch(2));
  EXPECT_EQ(dist.reduce(int64_t{0},
                        [](int64_t sum, const DistributedElement& element) {
                          return sum + element.global_sample_count();
                        }),
            5);
}

TEST(DistributeDatasetsFromFunction, ElementKGoesToReplicaKModR) {
  const auto strategy = mirrored(3);
  const auto dist =
      strategy->distribute_datasets_from_function([](const InputContext&) { return range(7); });
  EXPECT_EQ(steps_of(dist), (Steps{{{0}, {1}, {2}}, {{3}, {4}, {5}}}));
  EXPECT_EQ(dist.cardinality(), 7);
}

TEST(InputContext, DividesGlobalBatches) {
  const InputContext context(3, 1, 6);
  EXPECT_EQ(context.get_per_replica_batch_size(12), 2);
  EXPECT_ERROR(Code::InvalidArgument, "a global batch of 13",
               context.get_per_replica_batch_size(13));
  EXPECT_ERROR(Code::InvalidArgument, "-6", context.get_per_replica_batch_size(-6));
  EXPECT_ERROR(Code::InvalidArgument, "among 0",
               InputContext(1, 0, 0).get_per_replica_batch_size(6));
  EXPECT_EQ(context.to_string(),
            "InputContext(input pipeline id 1, total: 3, replicas in sync: 6)");
}

}  // namespace
}  // namespace cohort
