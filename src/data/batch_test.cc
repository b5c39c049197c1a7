// Elements put together, and taken apart again.

#include <algorithm>

#include "support/datasets.h"

namespace cohort::data {
namespace {

TEST(Batch, StacksAndKeepsTheRemainder) {
  EXPECT_EQ(rows(range(5).batch(2)), (Rows{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(rows(range(5).batch(2, {.drop_remainder = true})), (Rows{{0, 1}, {2, 3}}));
  EXPECT_EQ(rows(range(5).batch(2, {.parallel = 2})), (Rows{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(range(5).batch(2).cardinality(), 3);
  EXPECT_EQ(range(5).batch(2, {.drop_remainder = true}).cardinality(), 2);
  EXPECT_EQ(range(4).batch(2).element_spec()->to_string(), "int64 (None,)");
  EXPECT_ERROR(Code::InvalidArgument, "at least 1, got 0", range(5).batch(0));
}

TEST(Batch, NamesBothShapesThatDoNotBatch) {
  const auto ragged = range(3).map([](int64_t n) { return std::vector<float>(n + 1); });
  EXPECT_ERROR(Code::InvalidArgument, "element 0 has (1,), element 1 has (2,)",
               rows(ragged.batch(2)));
  const auto mixed = from_tensors(Tensor(1)).concatenate(from_tensors(Tensor(1.f)));
  EXPECT_ERROR(Code::InvalidArgument, "element 0 is int32, element 1 is float32",
               rows(mixed.batch(2)));
  const auto odd = from_tensors(Tensor(1)).concatenate(
      from_tensors(Element::tuple(std::vector<Tensor>{Tensor(1)})));
  EXPECT_ERROR(Code::InvalidArgument, "differ in structure", rows(odd.batch(2)));
}

TEST(PaddedBatch, PadsToTheLargest) {
  const auto ragged = range(3).map([](int64_t n) { return std::vector<int64_t>(n, 7); });
  EXPECT_EQ(rows(ragged.padded_batch(3)), (Rows{{0, 0, 7, 0, 7, 7}}));
  EXPECT_EQ(rows(ragged.padded_batch(2, {.shapes = {{3}}, .padding = {Tensor(int64_t{-1})}})),
            (Rows{{-1, -1, -1, 7, -1, -1}, {7, 7, -1}}));
  EXPECT_ERROR(Code::InvalidArgument, "larger than the padded shape (1,)",
               rows(ragged.padded_batch(3, {.shapes = {{1}}})));
  EXPECT_ERROR(Code::InvalidArgument, "cannot be padded with a float32 value",
               rows(ragged.padded_batch(3, {.padding = {Tensor(1.f)}})));
}

TEST(Unbatch, ReversesBatch) {
  EXPECT_EQ(numbers(range(5).batch(2).unbatch()), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows(range(8).batch(4).unbatch().batch(3)), (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_ERROR(Code::InvalidArgument, "[Unbatch] needs batches", range(2).unbatch());
}

TEST(Rebatch, CutsTheStreamByACyclicList) {
  EXPECT_EQ(rows(range(14).batch(7).rebatch({3, 2, 2})),
            (Rows{{0, 1, 2}, {3, 4}, {5, 6}, {7, 8, 9}, {10, 11}, {12, 13}}));
  EXPECT_EQ(rows(range(9).batch(6).rebatch({3, 3})), (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}));
  EXPECT_EQ(rows(range(6).batch(3).rebatch({1, 1, 1, 0})),
            (Rows{{0}, {1}, {2}, {}, {3}, {4}, {5}, {}}));
  EXPECT_EQ(rows(range(5).batch(3).repeat(2).rebatch({2, 1})),
            (Rows{{0, 1}, {2}, {3, 4}, {0}, {1, 2}, {3}, {4}}));
  EXPECT_EQ(rows(range(3).batch(3).rebatch({0, 1, 1})), (Rows{{}, {0}, {1}, {}, {2}}));
  EXPECT_EQ(rows(range(5).batch(5).rebatch({2}, {.drop_remainder = true})), (Rows{{0, 1}, {2, 3}}));
  EXPECT_ERROR(Code::InvalidArgument, "all sizes are 0", range(2).batch(2).rebatch({0}));
  EXPECT_ERROR(Code::InvalidArgument, "got -1", range(2).batch(2).rebatch({-1}));
  EXPECT_ERROR(Code::InvalidArgument, "empty", range(2).batch(2).rebatch({}));
}

TEST(SplitBatches, CutsEachBatchByItself) {
  EXPECT_EQ(rows(range(14).batch(7).split_batches(3)),
            (Rows{{0, 1, 2}, {3, 4, 5}, {6}, {7, 8, 9}, {10, 11, 12}, {13}}));
  EXPECT_EQ(rows(range(9).batch(6).split_batches(2)), (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8}}));
  EXPECT_EQ(rows(range(6).batch(3).split_batches(4)), (Rows{{0}, {1}, {2}, {}, {3}, {4}, {5}, {}}));
  EXPECT_EQ(rows(range(5).batch(3).repeat(2).split_batches(2)),
            (Rows{{0, 1}, {2}, {3}, {4}, {0, 1}, {2}, {3}, {4}}));
}

// The error comes from the line that builds the pipeline, not from the first element.
TEST(BatchesOfScalars, AreRefusedAtConstruction) {
  const Dataset half = zip({range(4).batch(2), range(2)});
  for (const Dataset& scalars : {range(2), range(2).prefetch(1), half}) {
    EXPECT_ERROR(Code::InvalidArgument, "[Rebatch] needs batches", scalars.rebatch({2}));
    EXPECT_ERROR(Code::InvalidArgument, "call batch() first", scalars.rebatch({2}));
    EXPECT_ERROR(Code::InvalidArgument, "[SplitBatches] needs batches", scalars.split_batches(2));
    EXPECT_ERROR(Code::InvalidArgument, "call batch() first", scalars.split_batches(2));
  }
}

// After a function of tensors, element_spec() is unknown.
TEST(BatchesOfScalars, FromAFunctionAreRefusedAtTheFirstElement) {
  const Dataset scalars = range(2).map([](const Tensor& x) { return x; });
  const std::string why = "] element 0: needs batches, but a part of the element is a scalar";
  EXPECT_ERROR(Code::InvalidArgument, "[Rebatch" + why, scalars.rebatch({2}).iterator().next());
  EXPECT_ERROR(Code::InvalidArgument, "[Unbatch" + why, scalars.unbatch().iterator().next());
  EXPECT_ERROR(Code::InvalidArgument, "[SplitBatches" + why,
               scalars.split_batches(2).iterator().next());
}

// Features and a label of one example are no batch, though each has a first dimension.
TEST(SplitBatches, WarnsOnceOfPartsWithDifferentFirstDimensions) {
  const Dataset examples = from_tensor_slices(Tensor({{1, 2}, {3, 4}}), Tensor({{1}, {2}}));
  testing::internal::CaptureStderr();
  Iterator it = examples.split_batches(2).iterator();
  EXPECT_EQ(it.next()[0].tensor().to_vector<int>(), std::vector<int>({1}));
  while (it.next_optional()) continue;
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("shapes (2,) and (1,)"), std::string::npos) << log;
  EXPECT_NE(log.find("call batch() first"), std::string::npos) << log;
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

TEST(ErrorsOfElements, NameTheStageOnce) {
  const Dataset uneven = range(1, 3).map([](int64_t n) { return std::vector<int64_t>(n, n); });
  EXPECT_ERROR(Code::InvalidArgument, "[Batch] element 0: elements of one batch differ",
               uneven.batch(2).iterator().next());
  const auto bad = [](const Tensor&) { return range(1).batch(1).rebatch({0}); };
  const Dataset nested = range(1).flat_map([&](const Tensor&) {
    const Dataset inner = range(1).flat_map(bad);
    inner.iterator().next();
    return inner;
  });
  EXPECT_ERROR(Code::InvalidArgument,
               "[FlatMap] element 0: [FlatMap] element 0: [Rebatch] at least",
               nested.iterator().next());
}

TEST(Bucket, GroupsByLength) {
  const auto words = range(1, 7).map([](int64_t n) { return std::vector<int64_t>(n, n); });
  const auto batches = words.bucket_by_length(
      [](std::span<const int64_t> word) { return static_cast<int64_t>(word.size()); }, {3, 5},
      {2, 2, 2});
  EXPECT_EQ(rows(batches),
            (Rows{{1, 0, 2, 2}, {3, 3, 3, 0, 4, 4, 4, 4}, {5, 5, 5, 5, 5, 0, 6, 6, 6, 6, 6, 6}}));
  EXPECT_ERROR(Code::InvalidArgument, "batch sizes",
               words.bucket_by_length([](Tensor) { return int64_t{1}; }, {3}, {2}));
}

}  // namespace
}  // namespace cohort::data
