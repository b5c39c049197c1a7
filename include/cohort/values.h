#pragma once

#include "cohort/element.h"
#include "cohort/internal/components.h"
#include "cohort/ops.h"
#include "cohort/variable.h"

// Values that a strategy keeps for each of its replicas.

namespace cohort {

// ReduceOp says how the values of several replicas become one value.
enum class ReduceOp { Sum, Mean, Min, Max, Product };
std::string to_string(ReduceOp op);
std::ostream& operator<<(std::ostream& out, ReduceOp op);
// Parses the name of an operation, "sum" in any letter case. Throws InvalidArgument, with a list of
// the names, if the name is unknown.
ReduceOp parse_reduce_op(std::string_view name);
// Returns Sum or Mean for the aggregation of that name. Throws InvalidArgument for the others.
ReduceOp reduce_op_of(VariableAggregation aggregation);

// PerReplica holds one value for each local replica. `run` and distributed datasets return it. For
// a function that returns nothing, `run` returns a PerReplica<void>, which has only size().
//
//   const PerReplica<Tensor> means = strategy.run([&] { return mean(x); });
//   const Tensor total = strategy.reduce(ReduceOp::Sum, means);
//   const std::vector<Tensor> each = strategy.local_results(means);
//
// A PerReplica<T> converts to T inside `run`, where it becomes the value of the replica. Elsewhere
// it converts only if it is *collapsed*: if there is one replica, or if all replicas returned the
// same tensor or equal plain values. A collapsed PerReplica also prints as that one value. Any
// other conversion throws Unimplemented; use reduce(), gather() or local_results() instead. A
// PerReplica of tuples, pairs, arrays or structs with Fields divides into one for each part:
//
//   const auto [low, high] = strategy.run([&] { return std::pair(min(x), max(x)); });
template <typename T>
class PerReplica {
 public:
  // `collapsed`: all values are known to be the same.
  explicit PerReplica(std::vector<std::optional<T>> values, bool collapsed = false)
      : values_(std::move(values)), collapsed_(collapsed) {}

  // Number of local replicas.
  size_t size() const { return values_.size(); }
  bool collapsed() const { return collapsed_; }
  // The value of a local replica. Throws InvalidArgument if `replica` is out of range.
  const T& operator[](size_t replica) const;
  // The value of this replica, or the one value of all replicas; otherwise throws Unimplemented.
  T value() const;
  operator T() const { return value(); }
  // The value() as a C++ number, see Tensor::to.
  template <TensorElement Number>
  Number to() const requires std::same_as<T, Tensor> {
    return value().template to<Number>();
  }
  // The tensor of a dataset's element that consists of one tensor.
  operator Tensor() const requires std::same_as<T, data::Element> { return value().tensor(); }
  // Part `I` of each replica's value, for structured bindings.
  template <size_t I>
  auto get() const requires internal::HasParts<T>;

 private:
  std::vector<std::optional<T>> values_;
  bool collapsed_;
};

// DistributedValue holds one dense or sparse tensor, or one for each of several places. Strategies
// reduce, broadcast and update with it, whatever C++ type the value had before.
//
//   const DistributedValue parts(DistributedValue::Kind::PerReplica, {Tensor(1.f), Tensor(3.f)});
//   const DistributedValue mean = ReductionToOneDevice().reduce(ReduceOp::Mean, parts, "CPU:0");
class DistributedValue {
 public:
  enum class Kind {
    Plain,       // one value, the same for all replicas
    PerReplica,  // one for each local replica; they may differ
    Mirrored,    // equal values, one for each device
    Variable,    // the copies of a variable
  };

  DistributedValue(Gradient value);
  DistributedValue(Tensor value) : DistributedValue(Gradient(std::move(value))) {}
  DistributedValue(IndexedSlices value) : DistributedValue(Gradient(std::move(value))) {}
  template <TensorElement T>
  DistributedValue(T value) : DistributedValue(Tensor(value)) {
    is_number_ = internal::Number<T>;
  }
  DistributedValue(const Variable& variable);
  template <typename T>
  requires(!std::same_as<T, data::Element> &&
           (std::convertible_to<const T&, Gradient> || std::convertible_to<const T&, Tensor>))
      DistributedValue(const PerReplica<T>& values)
      : DistributedValue(Kind::PerReplica, gradients_of(values)) {}
  DistributedValue(const PerReplica<data::Element>& values);
  DistributedValue(Kind kind, std::vector<Gradient> components);

  Kind kind() const { return kind_; }
  // Whether it was made from a C++ number, not from a tensor.
  bool is_number() const { return is_number_; }
  size_t size() const { return components_.size(); }
  const std::vector<Gradient>& components() const { return components_; }
  // Throws InvalidArgument if `index` is out of range.
  const Gradient& operator[](size_t index) const;
  // The devices of the components, in order; for a variable the devices of its copies.
  std::vector<std::string> devices() const;
  // The variable whose copies the components are. Throws InvalidArgument for the other kinds.
  const Variable& variable() const;

  // Returns one component: of a Plain value the only one; inside `run` and inside an update the one
  // that belongs there; of a Mirrored value the one on the current device, else the first. Throws
  // Unimplemented for a PerReplica value elsewhere, where several would have to become one.
  Gradient value() const;
  operator Tensor() const { return value().dense(); }

  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const DistributedValue& value);

 private:
  template <typename T>
  static std::vector<Gradient> gradients_of(const PerReplica<T>& values);

  Kind kind_;
  bool is_number_ = false;
  std::vector<Gradient> components_;
  std::optional<Variable> variable_;
};

}  // namespace cohort

#include "cohort/internal/values_inl.h"  // IWYU pragma: export
