#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "data/auto_shard.h"
#include "data/element_access.h"
#include "data/iterator.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

using internal::batch_size_of;
using internal::empty_element;
using internal::InputShare;
using internal::replica_batch_sizes;
using internal::spec_or_probe;

Dataset replica_input(const Dataset& dataset, const InputShare& share) {
  return internal::replica_input(dataset, share, internal::plan_input(dataset, share));
}

TEST(ReplicaBatchSizes, DifferByAtMostOneAndAddUpInEveryStep) {
  EXPECT_EQ(replica_batch_sizes(10, {2, 0, 3}), (Numbers{2, 2, 2, 2, 1, 1}));
  EXPECT_EQ(replica_batch_sizes(10, {2, 1, 3}), (Numbers{2, 1, 1, 2, 2, 2}));
  EXPECT_EQ(replica_batch_sizes(5, {2, 0, 2}), (Numbers{2, 1, 1, 1}));
  EXPECT_EQ(replica_batch_sizes(5, {2, 1, 2}), (Numbers{1, 1, 2, 1}));
  EXPECT_EQ(replica_batch_sizes(3, {1, 0, 4}), (Numbers{1, 1, 1, 0}));
}

TEST(BatchSize, IsTheFirstDimensionThatAllTensorsShare) {
  EXPECT_EQ(batch_size_of(range(8).batch(4, {.drop_remainder = true})), 4);
  EXPECT_EQ(batch_size_of(from_tensor_slices(Tensor({{1, 2, 3}}))), 3);
  const Dataset fours = range(8).batch(4, {.drop_remainder = true});
  const Dataset twos = range(8).batch(2, {.drop_remainder = true});
  EXPECT_EQ(batch_size_of(zip({fours, fours})), 4);
  EXPECT_EQ(batch_size_of(zip({fours, twos})), -1);
  EXPECT_EQ(batch_size_of(range(8)), -1);
}

TEST(BatchSize, IsFoundUpstreamWhereElementsPassWhole) {
  const Dataset batches = range(100).batch(4);
  const auto all = [](Element) { return true; };
  const Dataset passed = batches.cache().filter(all).prefetch(1).repeat(2).shard(2, 0).shuffle(3);
  EXPECT_EQ(batch_size_of(passed.skip(1).take(9).options({.threads = 2})), 4);
  EXPECT_EQ(batch_size_of(range(9).padded_batch(3)), 3);
  EXPECT_EQ(batch_size_of(batches.concatenate(batches)), 4);
  EXPECT_EQ(batch_size_of(zip({batches, range(100).batch(4)})), 4);
  EXPECT_EQ(batch_size_of(batches.concatenate(range(10).batch(5))), -1);
  EXPECT_EQ(batch_size_of(batches.map([](Tensor t) { return t; })), -1);
  EXPECT_EQ(batch_size_of(batches.flat_map([](Tensor) { return range(2); })), -1);
  EXPECT_EQ(batch_size_of(batches.interleave([](Tensor) { return range(2); })), -1);
  EXPECT_EQ(batch_size_of(batches.unbatch()), -1);
  EXPECT_EQ(batch_size_of(batches.take_while(all)), -1);
}

Dataset with_policy(const Dataset& dataset, AutoShardPolicy policy) {
  return dataset.options({.auto_shard_policy = policy});
}
Rows split(const Dataset& dataset, AutoShardPolicy policy, InputShare share) {
  return rows(replica_input(with_policy(dataset, policy), share));
}

TEST(ReplicaInput, WithoutDataShardingCutsTheStreamIntoEqualSizes) {
  const auto off = AutoShardPolicy::Off;
  EXPECT_EQ(split(range(14).batch(7), off, {1, 0, 3}),
            (Rows{{0, 1, 2}, {3, 4}, {5, 6}, {7, 8, 9}, {10, 11}, {12, 13}}));
  EXPECT_EQ(split(range(9).batch(6), off, {1, 0, 2}), (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}));
  EXPECT_EQ(split(range(6).batch(3), off, {1, 0, 4}), (Rows{{0}, {1}, {2}, {}, {3}, {4}, {5}, {}}));
  EXPECT_EQ(split(range(5).batch(3).repeat(2), off, {1, 0, 2}),
            (Rows{{0, 1}, {2}, {3, 4}, {0}, {1, 2}, {3}, {4}}));
  EXPECT_EQ(split(range(5).batch(5), off, {2, 1, 2}), (Rows{{0}, {1}, {2, 3}, {4}}));
}

TEST(ReplicaInput, InMemoryDataIsCutBatchByBatch) {
  for (const auto policy : {AutoShardPolicy::Auto, AutoShardPolicy::Data}) {
    EXPECT_EQ(split(range(14).batch(7), policy, {1, 0, 3}),
              (Rows{{0, 1, 2}, {3, 4, 5}, {6}, {7, 8, 9}, {10, 11, 12}, {13}}));
    EXPECT_EQ(split(range(9).batch(6), policy, {1, 0, 2}),
              (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8}}));
    EXPECT_EQ(split(range(6).batch(3), policy, {1, 0, 4}),
              (Rows{{0}, {1}, {2}, {}, {3}, {4}, {5}, {}}));
    EXPECT_EQ(split(range(5).batch(3).repeat(2), policy, {1, 0, 2}),
              (Rows{{0, 1}, {2}, {3}, {4}, {0, 1}, {2}, {3}, {4}}));
  }
}

TEST(ReplicaInput, AnUnknownBatchSizeIsCutBatchByBatch) {
  const Dataset mapped = range(9).batch(6).map([](Tensor t) { return t; });
  EXPECT_EQ(split(mapped, AutoShardPolicy::Off, {1, 0, 2}),
            (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8}}));
}

TEST(ReplicaInput, DataShardingDealsReplicaBatchesToWorkers) {
  EXPECT_EQ(split(range(24).batch(12), AutoShardPolicy::Data, {2, 0, 2}),
            (Rows{{0, 1, 2}, {6, 7, 8}, {12, 13, 14}, {18, 19, 20}}));
  EXPECT_EQ(split(range(24).batch(12), AutoShardPolicy::Auto, {2, 1, 2}),
            (Rows{{3, 4, 5}, {9, 10, 11}, {15, 16, 17}, {21, 22, 23}}));
}

// Two files of nine samples, global batches of six, two workers of two replicas.
TEST(ReplicaInput, FileShardingGivesEachWorkerItsFiles) {
  TemporaryDirectory directory;
  std::vector<std::string> paths;
  for (const char name : {'a', 'b'}) {
    std::string content;
    for (int i = 0; i < 9; ++i) content += name + std::to_string(i) + "\n";
    paths.push_back(directory.file(std::string(1, name), content));
  }
  const auto share = [&](int64_t worker) {
    std::vector<std::string> all;
    for (const Element& batch : replica_input(text_lines(paths).batch(6), {2, worker, 2})) {
      std::string joined;
      for (const std::string& line : batch.tensor().to_vector<std::string>()) joined += line + " ";
      all.push_back(joined);
    }
    return all;
  };
  EXPECT_EQ(share(0),
            (std::vector<std::string>{"a0 a1 ", "a2 a3 ", "a4 ", "a5 ", "a6 a7 ", "a8 "}));
  EXPECT_EQ(share(1),
            (std::vector<std::string>{"b0 ", "b1 ", "b2 b3 ", "b4 b5 ", "b6 ", "b7 ", "b8 "}));
}

// Whatever the sizes: no sample is lost or comes twice, and a step takes no more than the global
// batch.
RC_GTEST_PROP(ReplicaInput, WorkersTogetherSeeEverySampleOnce, ()) {
  const auto samples = *rc::gen::inRange<int64_t>(0, 60);
  const auto global = *rc::gen::inRange<int64_t>(1, 13);
  const auto workers = *rc::gen::inRange<int64_t>(1, 4);
  const auto replicas = *rc::gen::inRange<int64_t>(1, 4);
  const Dataset whole = range(samples).batch(global);
  RC_PRE(samples > 0 && whole.cardinality().count() * workers * replicas >= workers);
  std::vector<int64_t> all;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const Rows part = split(whole, AutoShardPolicy::Data, {workers, worker, replicas});
    RC_ASSERT(part.size() == static_cast<size_t>(whole.cardinality().count() * replicas) ||
              workers * replicas == 1);
    for (const auto& batch : part) {
      const int64_t most = (global + workers * replicas - 1) / (workers * replicas);
      RC_ASSERT(static_cast<int64_t>(batch.size()) <= most);
      all.insert(all.end(), batch.begin(), batch.end());
    }
  }
  std::ranges::sort(all);
  RC_ASSERT(all == numbers(range(samples)));
}

RC_GTEST_PROP(ReplicaInput, EqualSizesKeepTheStreamOfSamples, ()) {
  const auto samples = *rc::gen::inRange<int64_t>(0, 60);
  const auto global = *rc::gen::inRange<int64_t>(1, 13);
  const auto replicas = *rc::gen::inRange<int64_t>(2, 6);
  const Rows cut = split(range(samples).batch(global), AutoShardPolicy::Off, {1, 0, replicas});
  Numbers stream;
  for (size_t i = 0; i < cut.size(); ++i) {
    stream.insert(stream.end(), cut[i].begin(), cut[i].end());
    const auto at = static_cast<int64_t>(i) % replicas;
    const int64_t size = global / replicas + (at < global % replicas ? 1 : 0);
    RC_ASSERT(static_cast<int64_t>(cut[i].size()) == size || i + 1 == cut.size() ||
              (size > 0 && static_cast<int64_t>(stream.size()) == samples));
  }
  RC_ASSERT(stream == numbers(range(samples)));
}

TEST(ReplicaInput, OneReplicaGetsTheDatasetAsItIs) {
  EXPECT_EQ(replica_input(range(4), {}).to_string(), "Range(0, 4, 1)");
  EXPECT_EQ(numbers(replica_input(range(4), {})), (Numbers{0, 1, 2, 3}));
}

TEST(ReplicaInput, RefusesWhatIsNoBatch) {
  EXPECT_ERROR(Code::InvalidArgument, "call batch()", replica_input(range(4), {1, 0, 2}));
  const Dataset unknown = range(4).map([](Tensor t) { return t; });
  EXPECT_ERROR(Code::InvalidArgument, "call batch()", rows(replica_input(unknown, {1, 0, 2})));
  EXPECT_ERROR(Code::InvalidArgument, "0 workers", replica_input(range(4).batch(2), {0, 0, 2}));
}

TEST(ReplicaInput, PrefetchesAsManyElementsAsThereAreLocalReplicas) {
  EXPECT_EQ(replica_input(range(4).batch(2), {1, 0, 2}).to_string(),
            "Range(0, 4, 1) -> Batch(2) -> SplitBatches(2) -> Prefetch(2)");
}

TEST(ReplicaInput, StaticSizesAreKnownWhereNothingCanBeShort) {
  const Dataset even = range(8).batch(4, {.drop_remainder = true});
  EXPECT_EQ(even.rebatch({2, 2}).element_spec()->to_string(), "int64 (2,)");
  EXPECT_EQ(even.rebatch({3, 3}).element_spec()->to_string(), "int64 (None,)");
  EXPECT_EQ(even.rebatch({3, 3}, {.drop_remainder = true}).element_spec()->to_string(),
            "int64 (3,)");
  EXPECT_EQ(range(8).batch(4).rebatch({2}).element_spec()->to_string(), "int64 (None,)");
  EXPECT_EQ(even.split_batches(2).element_spec()->to_string(), "int64 (2,)");
  EXPECT_EQ(even.split_batches(3).element_spec()->to_string(), "int64 (None,)");
}

TEST(EmptyElement, HoldsNoSample) {
  const Dataset batches = zip({from_tensor_slices(Tensor({{1.f, 2.f}})), range(1)}).batch(1);
  const Element empty = empty_element(*batches.element_spec());
  EXPECT_EQ(ElementSpec(empty).to_string(), "(float32 (0, 2), int64 (0,))");
  const Dataset full = range(4).batch(2, {.drop_remainder = true});
  EXPECT_EQ(ElementSpec(empty_element(*full.element_spec())).to_string(), "int64 (0,)");
  EXPECT_EQ(ElementSpec(empty_element(*range(1).element_spec())).to_string(), "int64 ()");
  EXPECT_ERROR(Code::FailedPrecondition, "dimensions",
               empty_element(ElementSpec(TensorSpec{kFloat32, Shape::unknown()})));
}

TEST(SpecOrProbe, LooksAtTheFirstElementWhereTheDescriptionDoesNotTell) {
  const Dataset mapped = range(4).batch(2).map([](Tensor t) { return t; });
  EXPECT_FALSE(mapped.element_spec().has_value());
  EXPECT_EQ(spec_or_probe(mapped)->to_string(), "int64 (None,)");
  EXPECT_EQ(spec_or_probe(range(4))->to_string(), "int64 ()");
  EXPECT_FALSE(spec_or_probe(mapped.take(0)).has_value());
}

}  // namespace
}  // namespace cohort::data
