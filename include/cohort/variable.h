#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/site.h"
#include "cohort/tensor.h"

namespace cohort {

namespace internal {
class VariableImpl;
struct VariableAccess;
// Whether values of this type may have a part for each copy of a variable. See <cohort/values.h>.
template <typename T>
inline constexpr bool is_distributed = false;
template <typename T>
concept Distributed = is_distributed<T>;
enum class Write { Assign, AssignAdd, AssignSub };
// The C++ types that are numbers; a value of another type is a tensor.
template <typename T>
concept Number = TensorElement<T> && !std::same_as<T, std::string>;
}  // namespace internal

// When the copies that a strategy keeps of a variable are made equal: at each write, or only when
// read. Without a strategy there is one copy and this has no effect.
enum class VariableSynchronization { Auto, None, OnWrite, OnRead };

// How the values that several replicas write to one variable become one.
enum class VariableAggregation { None, Sum, Mean, OnlyFirstReplica };

struct VariableOptions {
  std::string name = "Variable";                 // a label; several variables may have the same
  std::optional<bool> trainable = std::nullopt;  // true, except for OnRead
  std::optional<DType> dtype = std::nullopt;     // converts the initial value
  Shape shape = Shape::unknown();                // what assigned values must fit; the initial
                                                 // value's when unknown
  VariableSynchronization synchronization = VariableSynchronization::Auto;
  VariableAggregation aggregation = VariableAggregation::None;
};

// Makes the initial value when the variable is made; what a strategy calls once for all copies.
using Initializer = std::function<Tensor()>;

// A tensor that can be changed: what a model learns. Converts to a Tensor, its value now.
//
// A handle: copies refer to the same variable. Thread-safe; each assign_* is one atomic change, and
// a value that was read never changes afterwards.
//
// A default-constructed one holds nothing until another is assigned to it: what uses it throws
// FailedPrecondition.
class Variable {
 public:
  Variable() = default;
  explicit Variable(const Tensor& initial_value, const VariableOptions& options = {});
  explicit Variable(const Initializer& initializer, const VariableOptions& options = {});
  template <TensorElement T>
  explicit Variable(T initial_value, const VariableOptions& options = {})
      : Variable(Tensor(initial_value), options) {}
  template <TensorElement T>
  explicit Variable(std::initializer_list<T> values, const VariableOptions& options = {})
      : Variable(Tensor(values), options) {}
  template <TensorElement T>
  explicit Variable(std::initializer_list<std::initializer_list<T>> rows,
                    const VariableOptions& options = {})
      : Variable(Tensor(rows), options) {}
  template <TensorElement T>
  explicit Variable(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
                    const VariableOptions& options = {})
      : Variable(Tensor(planes), options) {}

  bool defined() const { return impl_ != nullptr; }
  std::string name() const;
  DType dtype() const;
  Shape shape() const;
  bool trainable() const;
  std::string device() const;
  VariableSynchronization synchronization() const;
  VariableAggregation aggregation() const;
  // False for a graph's variable before its initializer ran.
  bool is_initialized() const;
  // Another variable of the same strategy, with the same options, devices and values.
  Variable deep_copy() const;

  Tensor read_value() const;
  Tensor value() const { return read_value(); }
  operator Tensor() const;
  // Part `index` of the value's first dimension.
  Tensor operator[](internal::Subscript index) const;

  // Each returns the new value. The value converts to the variable's dtype when that loses nothing
  // but precision (a float to an integer variable is InvalidArgument), and must fit its shape.
  Tensor assign(const Tensor& value, Site site = Site::here());
  Tensor assign_add(const Tensor& delta, Site site = Site::here());
  Tensor assign_sub(const Tensor& delta, Site site = Site::here());
  // A C++ number is one value for all replicas, however they got it. A variable that sums what
  // replicas write cannot know whether to add such a number once or once per replica: with several
  // replicas the write throws InvalidArgument. A Tensor is added once per replica.
  template <internal::Number T>
  Tensor assign(T value, Site site = Site::here()) {
    return write_number(internal::Write::Assign, value, site);
  }
  template <internal::Number T>
  Tensor assign_add(T delta, Site site = Site::here()) {
    return write_number(internal::Write::AssignAdd, delta, site);
  }
  template <internal::Number T>
  Tensor assign_sub(T delta, Site site = Site::here()) {
    return write_number(internal::Write::AssignSub, delta, site);
  }
  // With a value that has a part for each copy, each copy takes its own. Only a strategy's
  // variables do; others take the value that it converts to.
  template <internal::Distributed T>
  Tensor assign(const T& value, Site site = Site::here()) {
    return write_parts(*this, internal::Write::Assign, value, site);
  }
  template <internal::Distributed T>
  Tensor assign_add(const T& delta, Site site = Site::here()) {
    return write_parts(*this, internal::Write::AssignAdd, delta, site);
  }
  template <internal::Distributed T>
  Tensor assign_sub(const T& delta, Site site = Site::here()) {
    return write_parts(*this, internal::Write::AssignSub, delta, site);
  }

  // Change the rows that `slices` names, in order; a row named twice is changed twice. An index
  // outside the variable is InvalidArgument, and then nothing has changed.
  Tensor scatter_update(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_add(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_sub(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_mul(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_div(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_min(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_max(const IndexedSlices& slices, Site site = Site::here());

  // <Variable 'w:0' shape=(2,) dtype=float32, value=[1. 2.]>
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Variable& variable);

 private:
  friend struct internal::VariableAccess;
  explicit Variable(std::shared_ptr<internal::VariableImpl> impl);
  Tensor write_number(internal::Write how, const Tensor& number, Site site);

  std::shared_ptr<internal::VariableImpl> impl_;
};

namespace internal {
template <>
inline constexpr bool is_distributed<Variable> = true;
// Writes the copies of `value` to the copies of `target`, where both are a strategy's.
Tensor write_parts(const Variable& target, Write write, const Variable& value, Site site);
}  // namespace internal

// What is asked for when a variable is made.
struct VariableRequest {
  Initializer initializer;
  VariableOptions options;
};
// Makes the variable, or changes the request and lets `next`, the creator outside it, make it.
using NextCreator = std::function<Variable(const VariableRequest&)>;
using VariableCreator = std::function<Variable(const NextCreator& next, const VariableRequest&)>;

// While it lives, every variable that this thread makes goes through `creator`; the innermost
// creator is asked first.
class [[nodiscard]] VariableCreatorScope {
 public:
  explicit VariableCreatorScope(VariableCreator creator);
  ~VariableCreatorScope();
  VariableCreatorScope(const VariableCreatorScope&) = delete;
  VariableCreatorScope& operator=(const VariableCreatorScope&) = delete;

 private:
  size_t depth_;
};

}  // namespace cohort
