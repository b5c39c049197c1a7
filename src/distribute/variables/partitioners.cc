#include <algorithm>
#include <string_view>

#include "base/raise.h"
#include "cohort/sharded_variable.h"

namespace cohort {
namespace {

using internal::raise;

void check_positive(std::string_view partitioner, std::string_view option, int64_t value) {
  if (value >= 1) return;
  raise(Code::InvalidArgument, "[{}] {} must be at least 1, got {}", partitioner, option, value);
}

void check_shape(std::string_view partitioner, const Shape& shape, int axis) {
  if (!shape.is_fully_known()) {
    raise(Code::InvalidArgument,
          "[{}] needs a shape that is fully known, got {}; give the variable its shape",
          partitioner, shape.to_string());
  }
  if (axis < 0 || axis >= shape.rank()) {
    raise(Code::InvalidArgument, "[{}] shape {} has no axis {}, only {} dimensions", partitioner,
          shape.to_string(), axis, shape.rank());
  }
}

int64_t bytes_per_element(DType dtype, int64_t bytes_per_string) {
  return dtype == kString ? bytes_per_string : size_of(dtype);
}

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::vector<int64_t> parts_along(const Shape& shape, int axis, int64_t parts) {
  std::vector<int64_t> all(static_cast<size_t>(shape.rank()), 1);
  all[static_cast<size_t>(axis)] = std::max<int64_t>(1, std::min(parts, shape[axis]));
  return all;
}

}  // namespace

std::vector<int64_t> FixedShardsPartitioner::operator()(const Shape& shape, DType, int axis) const {
  check_positive("FixedShardsPartitioner", "num_shards", num_shards_);
  check_shape("FixedShardsPartitioner", shape, axis);
  return parts_along(shape, axis, num_shards_);
}

MinSizePartitioner::MinSizePartitioner(const MinSizeOptions& options) : options_(options) {
  check_positive("MinSizePartitioner", "min_shard_bytes", options.min_shard_bytes);
  check_positive("MinSizePartitioner", "max_shards", options.max_shards);
  check_positive("MinSizePartitioner", "bytes_per_string", options.bytes_per_string);
}

std::vector<int64_t> MinSizePartitioner::operator()(const Shape& shape, DType dtype,
                                                    int axis) const {
  check_shape("MinSizePartitioner", shape, axis);
  const int64_t bytes = shape.num_elements() * bytes_per_element(dtype, options_.bytes_per_string);
  const int64_t parts = ceil_div(bytes, options_.min_shard_bytes);
  return parts_along(shape, axis, std::min(options_.max_shards, parts));
}

MaxSizePartitioner::MaxSizePartitioner(const MaxSizeOptions& options) : options_(options) {
  check_positive("MaxSizePartitioner", "max_shard_bytes", options.max_shard_bytes);
  check_positive("MaxSizePartitioner", "max_shards", options.max_shards.value_or(1));
  check_positive("MaxSizePartitioner", "bytes_per_string", options.bytes_per_string);
}

std::vector<int64_t> MaxSizePartitioner::operator()(const Shape& shape, DType dtype,
                                                    int axis) const {
  check_shape("MaxSizePartitioner", shape, axis);
  const int64_t row_bytes =
      shape.without(axis).num_elements() * bytes_per_element(dtype, options_.bytes_per_string);
  const int64_t rows_per_part = row_bytes == 0 ? shape[axis] : options_.max_shard_bytes / row_bytes;
  const int64_t parts = ceil_div(shape[axis], std::max<int64_t>(1, rows_per_part));
  return parts_along(shape, axis, std::min(options_.max_shards.value_or(parts), parts));
}

}  // namespace cohort
