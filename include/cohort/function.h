#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cohort/internal/structure.h"
#include "cohort/tensor.h"
#include "cohort/variable.h"

namespace cohort {

namespace internal {
class TracedFunction;  // the traces made so far
class Trace;

// Appends an argument.
template <typename T>
void add_argument(const T& argument, Flat& flat) {
  collect_tensors(argument, flat.tensors);
  describe_structure(argument, flat.kinds);
}

// What a call gives: tensors, and the structure that they were in when the body was traced.
struct TracedResults {
  std::vector<Tensor> tensors;
  std::shared_ptr<const void> structure;
};
using TracedBody = std::function<TracedResults(std::span<const Tensor>)>;

// A call that another process makes.
struct TracedCall {
  std::shared_ptr<const Trace> trace;
  std::vector<Tensor> arguments;
};

// What Function<F> keeps; copies of a Function share it.
class FunctionCore {
 public:
  explicit FunctionCore(std::string name);
  // Both take the trace for the arguments' dtypes, shapes and kinds, making it first when there is
  // none.
  TracedResults call(const Flat& arguments, const TracedBody& body) const;
  std::string serialize(const Flat& arguments, const TracedBody& body) const;
  std::shared_ptr<const Trace> trace(const Flat& arguments, const TracedBody& body) const;
  size_t num_traces() const;

 private:
  std::shared_ptr<TracedFunction> traces_;
};
}  // namespace internal

struct FunctionOptions {
  std::string name = "function";  // in logs and errors
};

// C++ code that is run once, on symbols, for each kind of arguments (their dtypes and shapes), and
// from then on as the graph that this gave: no C++ in between, buffers reused, ready to be sent to
// another task. Gives what the plain call gives.
//
// What the code does besides calling op functions happens only while it is traced. Variables are
// captured by reference: their changes are seen. Reading a symbol into a C++ number throws
// FailedPrecondition; use where(), cond() and while_loop() instead of C++ branches on values. An
// argument of a new kind is traced anew (the log says why, at info). After a few shapes that differ
// in their first size only, that size is traced as unknown, unless the code looks at it.
//
// Arguments and results are tensors, gradients, distributed values and structures of them: vector,
// array, tuple, pair, map by name, structs with Fields. Numbers, strings and variables among the
// arguments are traced as they are, and traced anew when they change; among the results they stay
// what they were in the trace. Iterators may be arguments, or captured: each call takes the next
// elements, and any iterator over elements of the same dtypes and shapes goes with one trace.
// Inside a replica each replica has its own traces; a function that calls merge_call() there
// runs as the C++ code that it is.
//
// Nodes run on the devices that the code asked for, those of several devices at the same time.
// Thread-safe. Under a tape, and inside another function, it is called op by op.
template <typename F>
class Function {
 public:
  explicit Function(F body, FunctionOptions options = {})
      : body_(std::move(body)), core_(std::move(options.name)) {}

  template <typename... Args>
  requires std::invocable<const F&, Args...>
  auto operator()(const Args&... args) const {
    using Result = ResultOf<Args...>;
    const internal::TracedResults results = core_.call(flat(args...), traced(args...));
    if constexpr (!std::is_void_v<Result>) {
      size_t next = 0;
      return internal::replace_tensors(*static_cast<const Result*>(results.structure.get()),
                                       std::span<const Tensor>(results.tensors), next);
    }
  }

  // The trace for arguments such as these, made first when there is none, as bytes with which
  // another process runs it: see SerializedFunction. The bytes have the values that it uses,
  // the descriptions of the datasets of iterators that it captures, and the names of variables.
  // Where several variables have one name, the first keeps it and the others get a number,
  // "dense/kernel_1". Throws FailedPrecondition for what cannot be encoded, naming it.
  template <typename... Args>
  std::string serialize(const Args&... args) const {
    return core_.serialize(flat(args...), traced(args...));
  }

  // For those who run it elsewhere: the trace for these arguments, made first when there is none,
  // and their tensors.
  template <typename... Args>
  internal::TracedCall trace(const Args&... args) const {
    internal::Flat arguments = flat(args...);
    auto trace = core_.trace(arguments, traced(args...));
    return {std::move(trace), std::move(arguments.tensors)};
  }

  // How many traces it keeps, one for each kind of arguments: at most the 256 used last.
  size_t num_traces() const { return core_.num_traces(); }

 private:
  template <typename... Args>
  using ResultOf = std::decay_t<std::invoke_result_t<const F&, Args...>>;

  template <typename... Args>
  static internal::Flat flat(const Args&... args) {
    internal::Flat flat{.types = typeid(std::tuple<Args...>).hash_code()};
    (internal::add_argument(args, flat), ...);
    return flat;
  }

  // The body on symbols in the place of the arguments' tensors. Looks at `args`.
  template <typename... Args>
  auto traced(const Args&... args) const {
    return [this, &args...]([[maybe_unused]] std::span<const Tensor> symbols) {
      [[maybe_unused]] size_t next = 0;
      // Braces: evaluated from left to right.
      const std::tuple<Args...> rebuilt{internal::replace_tensors(args, symbols, next)...};
      internal::TracedResults results;
      if constexpr (std::is_void_v<ResultOf<Args...>>) {
        std::apply(body_, rebuilt);
      } else {
        auto made = std::make_shared<const ResultOf<Args...>>(std::apply(body_, rebuilt));
        internal::collect_tensors(*made, results.tensors);
        results.structure = std::move(made);
      }
      return results;
    };
  }

  F body_;
  internal::FunctionCore core_;
};

// What a function that was serialized needs from the process that runs it.
struct FunctionVariable {
  std::string name;
  DType dtype = kFloat32;
  Shape shape = Shape::unknown();
};

// A function from the bytes that Function::serialize() gave, here or in another process, with
// variables of this one:
//
//   std::vector<FunctionVariable> needed = SerializedFunction::variables(bytes);
//   SerializedFunction predict(bytes, {{"dense/kernel", kernel}, {"dense/bias", bias}});
//   Tensor y = predict({x})[0];
//
// Arguments and results are the tensors of the original's, from left to right. What the function
// does with variables, it does with those that it is given: reads, changes and, under a tape,
// differentiates. Iterators that the original captured begin their dataset when this is made. A
// handle: copies share the iterators. Thread-safe.
class SerializedFunction {
 public:
  // The variables that the function uses, in the order of first use.
  static std::vector<FunctionVariable> variables(std::string_view bytes);

  // Throws InvalidArgument for bytes that are damaged or need ops that this process does not have,
  // and for a variable of another dtype or shape; NotFound for a variable that is not given, and
  // for a function of a dataset that this process does not know. Variables of strategies and graphs
  // are Unimplemented.
  explicit SerializedFunction(std::string_view bytes,
                              const std::map<std::string, Variable>& variables = {});

  const std::string& name() const;
  size_t num_arguments() const;
  // Throws InvalidArgument for arguments of other dtypes, shapes or number than those that were
  // traced.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments = {}) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// auto step = function([&](Tensor x) { return x * 2.f; });
template <typename F>
Function<F> function(F body, FunctionOptions options = {}) {
  return Function<F>(std::move(body), std::move(options));
}

}  // namespace cohort
