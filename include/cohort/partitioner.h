#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cohort/dtype.h"
#include "cohort/shape.h"

// Into how many parts a large variable is cut, and along which dimension.

namespace cohort {

// The number of parts along each dimension: 1 everywhere but at `axis`. The partitioners below are
// such functions, and so is any callable of one's own.
using Partitioner = std::function<std::vector<int64_t>(const Shape& shape, DType dtype, int axis)>;

// All throw InvalidArgument for an axis that the shape does not have, and for a shape that is not
// fully known. No part is empty: there are at most as many as rows, and at least one.

// A fixed number of parts, whatever the size.
class FixedShardsPartitioner {
 public:
  explicit FixedShardsPartitioner(int64_t num_shards) : num_shards_(num_shards) {}
  // Throws InvalidArgument when the number of parts is below one.
  std::vector<int64_t> operator()(const Shape& shape, DType dtype, int axis = 0) const;

 private:
  int64_t num_shards_;
};

struct MinSizeOptions {
  int64_t min_shard_bytes = 256 << 10;
  int64_t max_shards = 1;
  int64_t bytes_per_string = 16;  // what a string is taken to have
};

// As many parts, up to `max_shards`, as have about `min_shard_bytes`. The number is rounded up, so
// that parts may be a little smaller.
class MinSizePartitioner {
 public:
  // Throws InvalidArgument for an option below one.
  explicit MinSizePartitioner(const MinSizeOptions& options = {});
  std::vector<int64_t> operator()(const Shape& shape, DType dtype, int axis = 0) const;

 private:
  MinSizeOptions options_;
};

struct MaxSizeOptions {
  int64_t max_shard_bytes = 0;                       // must be given
  std::optional<int64_t> max_shards = std::nullopt;  // goes before max_shard_bytes
  int64_t bytes_per_string = 16;
};

// As few parts as have at most `max_shard_bytes` each; a row is never cut.
class MaxSizePartitioner {
 public:
  // Throws InvalidArgument for an option below one.
  explicit MaxSizePartitioner(const MaxSizeOptions& options);
  std::vector<int64_t> operator()(const Shape& shape, DType dtype, int axis = 0) const;

 private:
  MaxSizeOptions options_;
};

}  // namespace cohort
