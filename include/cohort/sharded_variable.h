#pragma once

#include "cohort/nn_layers.h"

namespace cohort {

class ShardedVariable;
namespace internal {
class ShardedVariableImpl;
template <>
inline constexpr bool is_tensor_like<ShardedVariable> = true;
}  // namespace internal

// ---- Partitioners
// Partitioners decide into how many parts a large variable is cut, and along which dimension.

// Partitioner returns the number of parts along each dimension, which is 1 everywhere except at
// `axis`. The classes below are partitioners, and so is any callable of this signature.
//
//   const MinSizePartitioner partitioner({.min_shard_bytes = 1 << 20, .max_shards = 4});
//   const std::vector<int64_t> parts = partitioner(Shape{1'000'000, 64}, kFloat32);  // {4, 1}
using Partitioner = std::function<std::vector<int64_t>(const Shape& shape, DType dtype, int axis)>;

// All of them throw InvalidArgument if the shape lacks the axis or is not fully known. No part is
// empty: there are at least one and at most as many parts as rows.

// FixedShardsPartitioner cuts every variable into the same number of parts.
class FixedShardsPartitioner {
 public:
  explicit FixedShardsPartitioner(int64_t num_shards) : num_shards_(num_shards) {}
  // Throws InvalidArgument if the number of parts is below one.
  std::vector<int64_t> operator()(const Shape& shape, DType dtype, int axis = 0) const;

 private:
  int64_t num_shards_;
};

// MinSizeOptions configures a MinSizePartitioner.
struct MinSizeOptions {
  int64_t min_shard_bytes = 256 << 10;
  int64_t max_shards = 1;
  int64_t bytes_per_string = 16;  // the assumed size of a string
};

// MinSizePartitioner cuts a variable into parts of about `min_shard_bytes`, at most `max_shards`.
// It rounds the number of parts up, so parts may be a little smaller.
class MinSizePartitioner {
 public:
  // Throws InvalidArgument if an option is below one.
  explicit MinSizePartitioner(const MinSizeOptions& options = {});
  std::vector<int64_t> operator()(const Shape& shape, DType dtype, int axis = 0) const;

 private:
  MinSizeOptions options_;
};

// MaxSizeOptions configures a MaxSizePartitioner.
struct MaxSizeOptions {
  int64_t max_shard_bytes = 0;                       // required
  std::optional<int64_t> max_shards = std::nullopt;  // wins over max_shard_bytes
  int64_t bytes_per_string = 16;
};

// MaxSizePartitioner cuts a variable into few parts of at most `max_shard_bytes`; rows stay whole.
class MaxSizePartitioner {
 public:
  // Throws InvalidArgument if an option is below one.
  explicit MaxSizePartitioner(const MaxSizeOptions& options);
  std::vector<int64_t> operator()(const Shape& shape, DType dtype, int axis = 0) const;

 private:
  MaxSizeOptions options_;
};

// PartInitializer makes the initial value of a variable part by part. If a strategy's partitioner
// cuts the variable, `make` is called for each shard, with the shard's shape and where it begins,
// so that no process needs memory for the whole. For any other variable it is called once.
//
//   const auto make = [](const Shape& part, const std::vector<int64_t>&) { return zeros(part); };
//   Variable table(PartInitializer({1'000, 64}, make), {.name = "table"});
class PartInitializer {
 public:
  using Make = std::function<Tensor(const Shape& part, const std::vector<int64_t>& offset)>;
  PartInitializer(Shape shape, Make make, DType dtype = kFloat32)
      : shape_(std::move(shape)), make_(std::move(make)), dtype_(dtype) {}

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // Throws InvalidArgument if `make` returns another shape or dtype.
  Tensor part(const Shape& shape, const std::vector<int64_t>& offset) const;
  Tensor operator()() const;

 private:
  Shape shape_;
  Make make_;
  DType dtype_;
};

// ShardedVariable is one variable whose rows are spread over several variables, the shards. Large
// tables on parameter servers are stored so.
//
//   ShardedVariable table({Variable(zeros({2, 4})), Variable(zeros({3, 4}))});
//   const Tensor rows = nn::embedding_lookup(table, Tensor({0, 4}));
//
// A ShardedVariable is a handle. It can be read, assigned, saved and trained like any Variable.
// Looking up rows (gather, nn::embedding_lookup) and sparse gradients touch only the shards that
// have the rows, and run where these shards are.
class ShardedVariable {
 public:
  // Each shard holds consecutive rows, not necessarily equally many. Throws InvalidArgument if
  // the list is empty, if shards differ in dtype, in shape other than the first dimension or in
  // trainability, or if one is a shard of another variable or has shards itself.
  explicit ShardedVariable(const std::vector<Variable>& shards,
                           const std::string& name = "ShardedVariable");
  // The same for a list in braces, so that {v} is a list of one variable and not the variable v.
  template <std::same_as<Variable> Shard>
  explicit ShardedVariable(std::initializer_list<Shard> shards,
                           const std::string& name = "ShardedVariable")
      : ShardedVariable(std::vector<Variable>(shards), name) {}
  // The shards of a variable that a partitioner has cut. Throws InvalidArgument if it has none.
  template <std::convertible_to<Variable> Whole>
  explicit ShardedVariable(const Whole& variable) : impl_(existing(variable)) {}
  static bool is_sharded(const Variable& variable);

  operator Variable() const;
  // All rows.
  operator Tensor() const;
  Tensor read_value(Site site = Site::here()) const;

  std::string name() const;
  DType dtype() const;
  Shape shape() const;
  bool trainable() const;
  const std::vector<Variable>& variables() const;
  std::vector<Variable>::const_iterator begin() const { return variables().begin(); }
  std::vector<Variable>::const_iterator end() const { return variables().end(); }

  // Write each row to the shard that has it.
  ShardedVariable& assign(const Tensor& value, Site site = Site::here());
  ShardedVariable& assign_add(const Tensor& delta, Site site = Site::here());
  ShardedVariable& assign_sub(const Tensor& delta, Site site = Site::here());
  // See Variable. Throw Unimplemented unless the shards have the sizes that a partitioner gives.
  ShardedVariable& scatter_update(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_add(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_sub(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_mul(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_div(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_min(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_max(const IndexedSlices& slices, Site site = Site::here());
  // Returns the rows that a vector of integers names, in its order. Throws InvalidArgument if
  // `rows` is not such a vector or a row does not exist, and Unimplemented as above.
  Tensor sparse_read(const Tensor& rows, Site site = Site::here()) const;

  // Read the same as from the tensor of all rows, but only from the shards that have the rows. A
  // negative row counts from the end. Throw InvalidArgument if the row does not exist.
  Tensor operator[](internal::Subscript row) const;
  Tensor slice(const std::vector<Range>& ranges, Site site = Site::here()) const;

  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const ShardedVariable& variable);

 private:
  static std::shared_ptr<internal::ShardedVariableImpl> existing(const Variable& variable);

  std::shared_ptr<internal::ShardedVariableImpl> impl_;
};

namespace nn {
Tensor embedding_lookup(const ShardedVariable& table, const Tensor& ids, Site site = Site::here());
}  // namespace nn

}  // namespace cohort
