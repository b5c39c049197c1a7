#include <gtest/gtest.h>

#include "cohort/sharded_variable.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Parts = std::vector<int64_t>;

TEST(FixedShardsPartitioner, GivesThatManyPartsButNoEmptyOnes) {
  EXPECT_EQ(FixedShardsPartitioner(2)({10, 3}, kFloat32, 0), (Parts{2, 1}));
  EXPECT_EQ(FixedShardsPartitioner(2)({10, 3}, kFloat32, 1), (Parts{1, 2}));
  EXPECT_EQ(FixedShardsPartitioner(6)({4, 9}, kFloat32), (Parts{4, 1}));
  EXPECT_EQ(FixedShardsPartitioner(6)({4, 9}, kFloat32, 1), (Parts{1, 6}));
  EXPECT_EQ(FixedShardsPartitioner(6)({0, 9}, kFloat32), (Parts{1, 1}));
}

TEST(MinSizePartitioner, RoundsTheNumberOfPartsUp) {
  const auto parts = [](int64_t bytes, int64_t most, const Shape& shape, DType dtype, int axis) {
    return MinSizePartitioner{{.min_shard_bytes = bytes, .max_shards = most}}(shape, dtype, axis);
  };
  EXPECT_EQ(parts(24, 4, {10, 3}, kFloat32, 0), (Parts{4, 1}));
  EXPECT_EQ(parts(24, 8, {10, 3}, kFloat32, 0), (Parts{5, 1}));
  EXPECT_EQ(parts(60, 16, {7, 5}, kFloat64, 0), (Parts{5, 1}));
  EXPECT_EQ(parts(100, 16, {7, 5}, kInt64, 0), (Parts{3, 1}));
  EXPECT_EQ(parts(1000, 3, {100, 16}, kFloat32, 0), (Parts{3, 1}));
  EXPECT_EQ(parts(1000, 50, {100, 16}, kFloat32, 0), (Parts{7, 1}));
  EXPECT_EQ(parts(100, 50, {3, 1000}, kFloat32, 0), (Parts{3, 1}));
  EXPECT_EQ(parts(96, 16, {8, 12}, kFloat32, 1), (Parts{1, 4}));
  EXPECT_EQ(parts(24, 4, {0, 3}, kFloat32, 0), (Parts{1, 1}));
}

TEST(MinSizePartitioner, CutsNothingByDefault) {
  EXPECT_EQ(MinSizePartitioner{}({1 << 20, 16}, kFloat32), (Parts{1, 1}));
  EXPECT_EQ(MinSizePartitioner{{.max_shards = 3}}({1 << 16}, kFloat32), (Parts{1}));
  EXPECT_EQ(MinSizePartitioner{{.max_shards = 3}}({(1 << 16) + 1}, kFloat32), (Parts{2}));
}

TEST(MinSizePartitioner, TakesStringsToHaveAGivenSize) {
  EXPECT_EQ((MinSizePartitioner{{.min_shard_bytes = 32, .max_shards = 9}}({8}, kString)),
            (Parts{4}));
  EXPECT_EQ((MinSizePartitioner{{.min_shard_bytes = 32, .max_shards = 9, .bytes_per_string = 8}}(
                {8}, kString)),
            (Parts{2}));
}

TEST(MaxSizePartitioner, KeepsPartsBelowTheSizeWhereRowsAre) {
  EXPECT_EQ(MaxSizePartitioner{{.max_shard_bytes = 1000}}({100, 16}, kFloat32), (Parts{7, 1}));
  EXPECT_EQ((MaxSizePartitioner{{.max_shard_bytes = 1000, .max_shards = 4}}({100, 16}, kFloat32)),
            (Parts{4, 1}));
  EXPECT_EQ(MaxSizePartitioner{{.max_shard_bytes = 10}}({100, 16}, kFloat32), (Parts{100, 1}));
  EXPECT_EQ(MaxSizePartitioner{{.max_shard_bytes = 100}}({8, 12}, kFloat32, 1), (Parts{1, 4}));
  EXPECT_EQ(MaxSizePartitioner{{.max_shard_bytes = 32}}({8}, kString), (Parts{4}));
  EXPECT_EQ(MaxSizePartitioner{{.max_shard_bytes = 10}}({0, 16}, kFloat32), (Parts{1, 1}));
  EXPECT_EQ(MaxSizePartitioner{{.max_shard_bytes = 10}}({16, 0}, kFloat32), (Parts{1, 1}));
}

TEST(Partitioners, AreFunctionsLikeAUsersOwn) {
  Partitioner partitioner = MinSizePartitioner{{.min_shard_bytes = 24, .max_shards = 4}};
  EXPECT_EQ(partitioner({10, 3}, kFloat32, 0), (Parts{4, 1}));
  partitioner = [](const Shape& shape, DType, int axis) { return Parts{shape[axis], axis}; };
  EXPECT_EQ(partitioner({10, 3}, kFloat32, 1), (Parts{3, 1}));
}

TEST(Partitioners, RefuseAxesAndShapesThatDoNotFit) {
  const std::vector<Partitioner> all = {FixedShardsPartitioner(2), MinSizePartitioner{},
                                        MaxSizePartitioner{{.max_shard_bytes = 10}}};
  for (const Partitioner& partitioner : all) {
    EXPECT_ERROR(Code::InvalidArgument, "no axis 2", partitioner({10, 3}, kFloat32, 2));
    EXPECT_ERROR(Code::InvalidArgument, "no axis -1", partitioner({10, 3}, kFloat32, -1));
    EXPECT_ERROR(Code::InvalidArgument, "no axis 0", partitioner({}, kFloat32, 0));
    EXPECT_ERROR(Code::InvalidArgument, "(None, 3)", partitioner({-1, 3}, kFloat32, 0));
    EXPECT_ERROR(Code::InvalidArgument, "<unknown>", partitioner(Shape::unknown(), kFloat32, 0));
  }
}

TEST(Partitioners, RefuseOptionsBelowOne) {
  EXPECT_ERROR(Code::InvalidArgument, "num_shards", FixedShardsPartitioner(0)({2}, kFloat32));
  EXPECT_ERROR(Code::InvalidArgument, "min_shard_bytes",
               MinSizePartitioner{{.min_shard_bytes = 0}});
  EXPECT_ERROR(Code::InvalidArgument, "max_shards", MinSizePartitioner{{.max_shards = 0}});
  EXPECT_ERROR(Code::InvalidArgument, "bytes_per_string",
               MinSizePartitioner{{.bytes_per_string = -1}});
  EXPECT_ERROR(Code::InvalidArgument, "max_shard_bytes", MaxSizePartitioner{MaxSizeOptions{}});
  const MaxSizeOptions no_parts{.max_shard_bytes = 1, .max_shards = 0};
  EXPECT_ERROR(Code::InvalidArgument, "max_shards", MaxSizePartitioner{no_parts});
  const MaxSizeOptions no_bytes{.max_shard_bytes = 1, .bytes_per_string = 0};
  EXPECT_ERROR(Code::InvalidArgument, "bytes_per_string", MaxSizePartitioner{no_bytes});
}

}  // namespace
}  // namespace cohort
