#pragma once

#include "cohort/gradient.h"
#include "cohort/internal/written.h"

namespace cohort {

// When a strategy makes its copies of a variable equal: OnWrite, at each write; OnRead, only when
// the variable is read. Auto is OnWrite. Strategies with several replicas throw InvalidArgument for
// None. Without a strategy a variable has one copy, which needs no synchronization.
enum class VariableSynchronization { Auto, None, OnWrite, OnRead };

// How a strategy combines the values that several replicas write to one variable.
enum class VariableAggregation { None, Sum, Mean, OnlyFirstReplica };

// VariableOptions sets the name, type and behaviour of a new variable.
struct VariableOptions {
  std::string name = "Variable";                 // a label; several variables may share it
  std::optional<bool> trainable = std::nullopt;  // default: true, but false for OnRead
  std::optional<DType> dtype = std::nullopt;     // default: the dtype of the initial value
  Shape shape = Shape::unknown();                // of assigned values; unknown: the initial value's
  VariableSynchronization synchronization = VariableSynchronization::Auto;
  VariableAggregation aggregation = VariableAggregation::None;
};

// Returns the initial value of a variable. A strategy calls the function once for all copies.
using Initializer = std::function<Tensor()>;

// Variable is a tensor that can be changed, such as a weight of a model. A Variable converts to a
// Tensor, its current value.
//
//   Variable kernel(zeros({2, 3}), {.name = "kernel"});
//   kernel.assign_add(ones({2, 3}));
//   Tensor product = matmul(x, kernel);
//
// A Variable is a handle: copies refer to the same variable. It is thread-safe: each assign_* is
// one atomic change, and a value that was read never changes afterwards. A default-constructed
// Variable holds nothing; its functions throw FailedPrecondition until a variable is assigned to
// it.
class Variable {
 public:
  Variable() = default;
  explicit Variable(const Tensor& initial_value, const VariableOptions& options = {},
                    Site site = Site::here());
  explicit Variable(const Initializer& initializer, const VariableOptions& options = {},
                    Site site = Site::here());
  template <TensorElement T>
  explicit Variable(T initial_value, const VariableOptions& options = {}, Site site = Site::here())
      : Variable(Tensor(initial_value), options, site) {}
  template <TensorElement T>
  explicit Variable(std::initializer_list<T> values, const VariableOptions& options = {},
                    Site site = Site::here())
      : Variable(Tensor(values), options, site) {}
  template <TensorElement T>
  explicit Variable(std::initializer_list<std::initializer_list<T>> rows,
                    const VariableOptions& options = {}, Site site = Site::here())
      : Variable(Tensor(rows), options, site) {}
  template <TensorElement T>
  explicit Variable(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
                    const VariableOptions& options = {}, Site site = Site::here())
      : Variable(Tensor(planes), options, site) {}

  bool defined() const { return impl_ != nullptr; }
  std::string name() const;
  DType dtype() const;
  Shape shape() const;
  bool trainable() const;
  std::string device() const;
  VariableSynchronization synchronization() const;
  VariableAggregation aggregation() const;
  // False for a variable of a graph before its initializer has run.
  bool is_initialized() const;
  // Returns a new variable of the same strategy, with the same options, devices and values.
  Variable deep_copy() const;

  Tensor read_value(Site site = Site::here()) const;
  Tensor value(Site site = Site::here()) const { return read_value(site); }
  operator Tensor() const;
  // Returns part `index` of the value's first dimension.
  Tensor operator[](internal::Subscript index) const;

  // Write the variable and return the new value. The operand must fit the variable's shape. It is
  // converted to the variable's dtype if the conversion loses nothing but precision: writing a
  // float to an integer variable throws InvalidArgument.
  Tensor assign(const Tensor& value, Site site = Site::here());
  Tensor assign_add(const Tensor& delta, Site site = Site::here());
  Tensor assign_sub(const Tensor& delta, Site site = Site::here());
  // A C++ number is one value for all replicas, however they got the number. If a variable sums
  // what replicas write, it cannot know whether the number counts once or once per replica: with
  // several replicas the write throws InvalidArgument. A Tensor counts once per replica. If the
  // operand has a part for each copy, each copy of a strategy's variable takes its own part; other
  // variables take the Tensor that the operand converts to.
  template <internal::Written T>
  Tensor assign(const T& value, Site site = Site::here());
  template <internal::Written T>
  Tensor assign_add(const T& delta, Site site = Site::here());
  template <internal::Written T>
  Tensor assign_sub(const T& delta, Site site = Site::here());

  // Change the rows that `slices` names, in order, and return the new value. A row that is named
  // twice changes twice. An index outside the variable throws InvalidArgument and changes nothing.
  Tensor scatter_update(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_add(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_sub(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_mul(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_div(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_min(const IndexedSlices& slices, Site site = Site::here());
  Tensor scatter_max(const IndexedSlices& slices, Site site = Site::here());

  // Prints as in <Variable 'w:0' shape=(2,) dtype=float32, value=[1. 2.]>.
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Variable& variable);

 private:
  friend struct internal::VariableAccess;
  explicit Variable(std::shared_ptr<internal::VariableImpl> impl);
  template <typename T>
  Tensor write(internal::Write how, const T& value, Site site);
  Tensor write_number(internal::Write how, const Tensor& number, Site site);

  std::shared_ptr<internal::VariableImpl> impl_;
};

// VariableRequest holds what a program passed to make a variable.
struct VariableRequest {
  Initializer initializer;
  VariableOptions options;
};
// A VariableCreator makes a variable itself, or changes the request and lets `next`, the creator
// outside it, make the variable.
using NextCreator = std::function<Variable(const VariableRequest&)>;
using VariableCreator = std::function<Variable(const NextCreator& next, const VariableRequest&)>;

// VariableCreatorScope passes every variable that this thread makes through `creator` while the
// scope exists. Scopes nest: the innermost creator is called first.
//
//   VariableCreatorScope scope([](const NextCreator& next, VariableRequest request) {
//     request.options.trainable = false;
//     return next(request);
//   });
//   Variable frozen(1.f);
class [[nodiscard]] VariableCreatorScope {
 public:
  explicit VariableCreatorScope(VariableCreator creator);
  ~VariableCreatorScope();
  VariableCreatorScope(const VariableCreatorScope&) = delete;
  VariableCreatorScope& operator=(const VariableCreatorScope&) = delete;

 private:
  size_t depth_;
};

// While a VariableSyncOnReadScope exists, a variable with synchronization OnRead that is used as a
// tensor in a replica gives its value over all replicas, not the replica's own value. All replicas
// must then use the variable together. A scope around run() holds for all of its replicas.
// read_value() of such a variable throws Unimplemented meanwhile.
class [[nodiscard]] VariableSyncOnReadScope {
 public:
  VariableSyncOnReadScope();
  ~VariableSyncOnReadScope();
  VariableSyncOnReadScope(const VariableSyncOnReadScope&) = delete;
  VariableSyncOnReadScope& operator=(const VariableSyncOnReadScope&) = delete;

 private:
  bool outer_;
};
inline VariableSyncOnReadScope variable_sync_on_read_context() { return VariableSyncOnReadScope(); }

// CacheVariableReadsScope keeps what this thread and the replicas that it starts read of variables
// on parameter servers. Later reads inside the scope return the kept value, whatever is written
// meanwhile. Throws InvalidArgument inside another CacheVariableReadsScope.
//
//   const CacheVariableReadsScope cached = cache_variable_reads();
//   Tensor total = w + w;  // reads w once
class [[nodiscard]] CacheVariableReadsScope {
 public:
  CacheVariableReadsScope();
  ~CacheVariableReadsScope();
  CacheVariableReadsScope(const CacheVariableReadsScope&) = delete;
  CacheVariableReadsScope& operator=(const CacheVariableReadsScope&) = delete;
};
inline CacheVariableReadsScope cache_variable_reads() { return CacheVariableReadsScope(); }

}  // namespace cohort

#include "cohort/internal/variable_inl.h"  // IWYU pragma: export
