#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "cohort/ops.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// Rows cut into parts of consecutive rows: n div k rows each, the first n mod k parts one more.
class DivSharding {
 public:
  // At most as many parts as rows, and at least one. Throws InvalidArgument when `rows` is negative
  // or `parts` below one.
  DivSharding(int64_t rows, int64_t parts);

  int64_t parts() const { return parts_; }
  int64_t size(int64_t part) const { return base_ + (part < longer_ ? 1 : 0); }
  // The first row of a part.
  int64_t begin(int64_t part) const { return part * base_ + std::min(part, longer_); }

 private:
  int64_t parts_;
  int64_t base_;    // rows of the shorter parts
  int64_t longer_;  // number of parts with one more
};

// A variable made of others, each of which has some of its rows.
class ShardedVariableImpl : public VariableImpl {
 public:
  // Throws InvalidArgument as ShardedVariable says.
  ShardedVariableImpl(std::vector<Variable> shards, const std::string& name);

  const std::vector<Variable>& list() const { return shards_; }
  // The first row of a shard; for the number of shards, the number of rows.
  int64_t begin(size_t shard) const { return begins_[shard]; }

  const std::string& name() const override { return handle_.name; }
  const VariableOptions& options() const override { return options_; }
  bool trainable() const override { return *options_.trainable; }
  const VariableHandle& handle() const override { return handle_; }
  std::string device() const override;
  bool is_initialized() const override;
  Tensor read() const override;
  Tensor convert() const override;
  Tensor write(Write how, const Tensor& value) override;
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;
  std::shared_ptr<VariableImpl> deep_copy() const override;
  std::string to_string() const override;
  std::span<const Variable> shards() const override { return shards_; }
  std::span<const Variable> parts() const override { return shards_; }

  Tensor sparse_read(const Tensor& rows) const;
  // Reads only the shards that have rows of the slice.
  Tensor slice(const std::vector<Range>& ranges) const;
  // Negative numbers count from the end. Throws InvalidArgument.
  Tensor row(int64_t number) const;
  // The part of a gradient that is a shard's.
  Gradient part_of(const Gradient& gradient, size_t shard) const;

 private:
  void require_div_sizes(std::string_view what) const;
  // All rows. `read` reads one shard.
  Tensor join_shards(const std::function<Tensor(const Variable&)>& read) const;

  const std::vector<Variable> shards_;
  std::vector<int64_t> begins_;
  VariableOptions options_;
  VariableHandle handle_;
};

// The variable as a user holds it, of which its shards know. It belongs to their strategy.
Variable make_sharded(std::vector<Variable> shards, const std::string& name);

// The implementation of a sharded variable; null for others.
std::shared_ptr<ShardedVariableImpl> sharded(const Variable& variable);

}  // namespace cohort::internal
