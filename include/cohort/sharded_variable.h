#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "cohort/nn_layers.h"
#include "cohort/ops.h"
#include "cohort/site.h"
#include "cohort/variable.h"

namespace cohort {

class ShardedVariable;
namespace internal {
class ShardedVariableImpl;
template <>
inline constexpr bool is_tensor_like<ShardedVariable> = true;
}  // namespace internal

// Makes the initial value of a variable part by part: of a variable that a strategy's partitioner
// cuts, `make` is called for each shard with the shard's shape and where it begins, so that no
// process needs memory for the whole; of any other once, with the whole.
//   Variable table(PartInitializer({1'000'000, 64}, make), {.name = "table"});
class PartInitializer {
 public:
  using Make = std::function<Tensor(const Shape& part, const std::vector<int64_t>& offset)>;
  PartInitializer(Shape shape, Make make, DType dtype = kFloat32)
      : shape_(std::move(shape)), make_(std::move(make)), dtype_(dtype) {}

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // Throws InvalidArgument when it is made with another shape or dtype.
  Tensor part(const Shape& shape, const std::vector<int64_t>& offset) const;
  Tensor operator()() const;

 private:
  Shape shape_;
  Make make_;
  DType dtype_;
};

// One variable whose rows are spread over several, the shards: what a large table is on parameter
// servers. A handle, and everywhere a Variable like any other: it is read, assigned, saved and
// trained as one. Looking up rows (gather, nn::embedding_lookup) and sparse gradients touch the
// shards that have the rows, and happen where these are.
class ShardedVariable {
 public:
  // Of consecutive rows, which need not be equally many. Throws InvalidArgument unless there is at
  // least one, with equal dtypes, shapes but for the first dimension, and trainability, and none is
  // a shard already or has shards.
  explicit ShardedVariable(const std::vector<Variable>& shards,
                           const std::string& name = "ShardedVariable");
  // The same for a list in braces, so that {v} is a list of one and not the variable v.
  template <std::same_as<Variable> Shard>
  explicit ShardedVariable(std::initializer_list<Shard> shards,
                           const std::string& name = "ShardedVariable")
      : ShardedVariable(std::vector<Variable>(shards), name) {}
  // What a variable is that a strategy's partitioner has cut. Throws InvalidArgument otherwise.
  template <std::convertible_to<Variable> Whole>
  explicit ShardedVariable(const Whole& variable) : impl_(existing(variable)) {}
  static bool is_sharded(const Variable& variable);

  operator Variable() const;
  // All rows.
  operator Tensor() const { return read_value(); }
  Tensor read_value() const;

  std::string name() const;
  DType dtype() const;
  Shape shape() const;
  bool trainable() const;
  const std::vector<Variable>& variables() const;
  std::vector<Variable>::const_iterator begin() const { return variables().begin(); }
  std::vector<Variable>::const_iterator end() const { return variables().end(); }

  // Each shard gets its rows.
  ShardedVariable& assign(const Tensor& value, Site site = Site::here());
  ShardedVariable& assign_add(const Tensor& delta, Site site = Site::here());
  ShardedVariable& assign_sub(const Tensor& delta, Site site = Site::here());
  // As Variable's. Throw Unimplemented unless the shards have the sizes that a partitioner gives.
  ShardedVariable& scatter_update(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_add(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_sub(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_mul(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_div(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_min(const IndexedSlices& slices, Site site = Site::here());
  ShardedVariable& scatter_max(const IndexedSlices& slices, Site site = Site::here());
  // The rows that a vector of integers names, in its order. Throws InvalidArgument for another
  // shape, Unimplemented as above, InvalidArgument for a row that does not exist.
  Tensor sparse_read(const Tensor& rows, Site site = Site::here()) const;

  // As for the tensor of all rows; only the shards that are needed are read. A negative row counts
  // from the end; InvalidArgument when there is none.
  Tensor operator[](internal::Subscript row) const;
  Tensor slice(const std::vector<Range>& ranges, Site site = Site::here()) const;

  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const ShardedVariable& variable);

 private:
  static std::shared_ptr<internal::ShardedVariableImpl> existing(const Variable& variable);

  std::shared_ptr<internal::ShardedVariableImpl> impl_;
};

namespace nn {
inline Tensor embedding_lookup(const ShardedVariable& table, const Tensor& ids,
                               Site site = Site::here()) {
  const Variable whole = table;
  return embedding_lookup(whole, ids, site);
}
}  // namespace nn

}  // namespace cohort
