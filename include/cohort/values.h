#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/element.h"
#include "cohort/gradient.h"
#include "cohort/internal/nest.h"
#include "cohort/ops.h"
#include "cohort/site.h"
#include "cohort/tensor.h"
#include "cohort/variable.h"

// Values that a strategy keeps for each of its replicas.

namespace cohort {

// How one value is made of those of several replicas.
enum class ReduceOp { Sum, Mean, Min, Max, Product };
std::string to_string(ReduceOp op);
// "sum" in any letter case. Throws InvalidArgument, listing the names there are.
ReduceOp parse_reduce_op(std::string_view name);
// Sum and Mean; the others throw InvalidArgument.
ReduceOp reduce_op_of(VariableAggregation aggregation);

namespace internal {
// Which component of a distributed value this thread's code means: its replica's, or the one being
// updated; nullopt where no one component is meant.
std::optional<size_t> current_component();
[[noreturn]] void throw_not_one_value(size_t components);
[[noreturn]] void throw_no_component(size_t index, size_t components);

// Structures whose number of parts the type tells.
template <typename T>
concept HasParts = kIsTuple<T> || HasFields<T>;
template <typename T>
decltype(auto) parts_of_structure(T& value) {
  if constexpr (kIsTuple<T>) {
    return (value);
  } else {
    return Fields<T>::of(value);
  }
}
template <HasParts T>
using PartsOf = std::remove_reference_t<decltype(parts_of_structure(std::declval<T&>()))>;
template <size_t I, HasParts T>
using PartOf = std::remove_cvref_t<std::tuple_element_t<I, PartsOf<T>>>;
}  // namespace internal

// One value per local replica: what `run` returns and what distributed datasets give.
//
// When the replicas returned one and the same thing (the same tensor, or equal plain values), or
// when there is one replica, it is *collapsed*: it prints as that value and converts to it. Inside
// `run` it converts to the own replica's value. Elsewhere the conversion throws Unimplemented:
// reduce it, gather it, or take it apart with local_results(). One of tuples, pairs, arrays or
// structs with Fields is also one for each part:
//   auto [loss, correct] = strategy.run(step, batch);
template <typename T>
class PerReplica {
 public:
  // `collapsed`: the values are known to be one.
  explicit PerReplica(std::vector<std::optional<T>> values, bool collapsed = false)
      : values_(std::move(values)), collapsed_(collapsed) {}

  // Number of local replicas.
  size_t size() const { return values_.size(); }
  bool collapsed() const { return collapsed_; }
  // The value of a local replica. Throws InvalidArgument.
  const T& operator[](size_t replica) const {
    if (replica >= values_.size()) internal::throw_no_component(replica, values_.size());
    return *values_[replica];
  }
  T value() const {
    if (collapsed_ || values_.size() == 1) return *values_.front();
    const std::optional<size_t> own = internal::current_component();
    if (!own) internal::throw_not_one_value(values_.size());
    return (*this)[*own];
  }
  operator T() const { return value(); }
  // The one value, as Tensor::to gives it.
  template <TensorElement Number>
  Number to() const requires std::same_as<T, Tensor> {
    return value().template to<Number>();
  }
  // A dataset's element that is one tensor.
  operator Tensor() const requires std::same_as<T, data::Element> { return value().tensor(); }
  // The replicas' parts number `I`, for structured bindings.
  template <size_t I>
  auto get() const requires internal::HasParts<T>;

 private:
  std::vector<std::optional<T>> values_;
  bool collapsed_;
};

// What `run` returns for a function without result.
template <>
class PerReplica<void> {
 public:
  explicit PerReplica(size_t size) : size_(size) {}
  size_t size() const { return size_; }

 private:
  size_t size_;
};

// A tensor, dense or rows of one, or one for each of several places: what strategies reduce,
// broadcast and update with, whatever C++ type it came from.
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
  // Whether it was made of a C++ number, not of a tensor.
  bool is_number() const { return is_number_; }
  size_t size() const { return components_.size(); }
  const std::vector<Gradient>& components() const { return components_; }
  // Throws InvalidArgument.
  const Gradient& operator[](size_t index) const;
  // Where the components are, in order; a variable's copies for a variable.
  std::vector<std::string> devices() const;
  // The variable that this is. Throws InvalidArgument for the other kinds.
  const Variable& variable() const;

  // The value of a plain one; the own component inside `run` and inside an update; of a mirrored
  // one the component on the current device, else the first. Throws Unimplemented where the
  // components of a PerReplica would have to become one.
  Gradient value() const;
  operator Tensor() const { return value().dense(); }

  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const DistributedValue& value);

 private:
  template <typename T>
  static std::vector<Gradient> gradients_of(const PerReplica<T>& values) {
    std::vector<Gradient> all;
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::convertible_to<const T&, Gradient>) {
        all.emplace_back(values[i]);
      } else {
        all.emplace_back(static_cast<Tensor>(values[i]));
      }
    }
    return all;
  }

  Kind kind_;
  bool is_number_ = false;
  std::vector<Gradient> components_;
  std::optional<Variable> variable_;
};

namespace internal {
template <>
inline constexpr bool is_tensor_like<PerReplica<Tensor>> = true;
template <>
inline constexpr bool is_tensor_like<DistributedValue> = true;

template <typename T>
inline constexpr bool is_distributed<PerReplica<T>> =
    std::convertible_to<const PerReplica<T>&, DistributedValue>;
template <>
inline constexpr bool is_distributed<DistributedValue> = true;
// Writes each component to its copy. Throws InvalidArgument where the rules for `target` want one
// value for all copies.
Tensor write_parts(const Variable& target, Write write, const DistributedValue& value, Site site);
}  // namespace internal

}  // namespace cohort

template <cohort::internal::HasParts T>
struct std::tuple_size<cohort::PerReplica<T>> : std::tuple_size<cohort::internal::PartsOf<T>> {};
template <size_t I, cohort::internal::HasParts T>
struct std::tuple_element<I, cohort::PerReplica<T>> {
  using type = cohort::PerReplica<cohort::internal::PartOf<I, T>>;
};

#include "cohort/internal/values_inl.h"  // IWYU pragma: export
