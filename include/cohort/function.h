#pragma once

#include <map>
#include <typeinfo>

#include "cohort/internal/accepts.h"
#include "cohort/internal/function_core.h"
#include "cohort/variable.h"

namespace cohort {

// FunctionOptions sets how logs and errors name a function.
struct FunctionOptions {
  std::string name = "function";
};

// Function turns C++ code into a graph. It runs the code once, on symbols, for each combination of
// dtypes and shapes of the arguments; this is called tracing. Later calls run the graph: without
// C++ in between, with reused buffers, and on another task if it is sent there. They return what
// the plain call returns. function() makes a Function:
//
//   auto step = function([&](const Tensor& batch) { return model(batch) * 2.f; });
//   Tensor first = step(x);   // traces, then runs the graph
//   Tensor second = step(y);  // runs the graph if y has the dtype and shape of x
//
// Effects of the code other than op calls happen only while it is traced. Variables are captured by
// reference: a call sees their changes. Reading a symbol into a C++ number throws
// FailedPrecondition; use where(), cond() and while_loop() instead of C++ branches on values.
// Arguments of a new kind are traced anew, and the log reports why, at level info. After a few
// shapes that differ only in their first size, that size is traced as unknown, unless the code
// reads it.
//
// Arguments and results are tensors, gradients, distributed values and structures of them: vector,
// array, tuple, pair, map by name, structs with Fields. Numbers, strings and variables among the
// arguments become part of the trace, and a change of one causes a new trace; among the results
// they stay as they were in the trace. Iterators may be arguments or be captured: each call takes
// the next elements, and iterators over elements of the same dtypes and shapes share a trace. Each
// replica has its own traces. A function that calls merge_call() in a replica runs as plain C++.
//
// Nodes run on the devices that the code requested, and nodes of several devices run at the same
// time. Under a tape, and inside another function, a Function is called op by op. Thread-safe.
template <typename F>
class Function {
 public:
  explicit Function(F body, FunctionOptions options = {})
      : body_(std::move(body)), core_(std::move(options.name)) {}

  template <typename... Args>
  requires std::invocable<const F&, Args...>
  auto operator()(const Args&... args) const;
  template <typename... Args>
  requires(!std::invocable<const F&, Args...>) internal::DoesNotFit operator()(
      const Args&...) const;

  // Returns the trace for such arguments as bytes, with which another process runs the function
  // (see SerializedFunction); makes the trace first if it does not exist. The bytes hold the values
  // that the trace uses, descriptions of the datasets of captured iterators, and names of
  // variables. If several variables have the same name, the first keeps it and the others get a
  // number: "dense/kernel_1". Throws FailedPrecondition, naming what cannot be encoded.
  template <typename... Args>
  std::string serialize(const Args&... args) const;

  // The number of traces that are kept, one for each kind of arguments: at most the 256 used last.
  size_t num_traces() const { return core_.num_traces(); }

 private:
  friend struct internal::Access;
  template <typename... Args>
  internal::TracedCall trace(const Args&... args) const;
  template <typename... Args>
  static internal::Flat flat(const Args&... args);
  template <typename... Args>
  auto traced(const Args&... args) const;

  F body_;
  internal::FunctionCore core_;
};

// FunctionVariable describes a variable that a serialized function needs.
struct FunctionVariable {
  std::string name;
  DType dtype = kFloat32;
  Shape shape = Shape::unknown();
};

// SerializedFunction runs a function from the bytes of Function::serialize(), in the same or
// another process, with variables of the process that runs it:
//
//   std::string bytes = function([&](const Tensor& v) { return v * w; }).serialize(x);
//   std::vector<FunctionVariable> needed = SerializedFunction::variables(bytes);
//   SerializedFunction scale(bytes, {{needed[0].name, w}});
//   Tensor scaled = scale({x})[0];
//
// Arguments and results are the tensors of the original's arguments and results, from left to
// right. The function reads and changes the given variables, and a tape differentiates with respect
// to them. An iterator that the original captured starts at the beginning of its dataset. A
// SerializedFunction is a handle: copies share the iterators. Thread-safe.
class SerializedFunction {
 public:
  // Returns the variables that the function uses, in the order of first use.
  static std::vector<FunctionVariable> variables(std::string_view bytes);

  // Throws InvalidArgument if the bytes are damaged or need an op that this process does not have,
  // or if a variable has another dtype or shape. Throws NotFound if a variable is not given, or if
  // a dataset needs a function that this process does not have. Throws Unimplemented for variables
  // of strategies and graphs.
  explicit SerializedFunction(std::string_view bytes,
                              const std::map<std::string, Variable>& variables = {});

  const std::string& name() const;
  size_t num_arguments() const;
  // Throws InvalidArgument if the number, dtypes or shapes of the arguments differ from the trace.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments = {}) const;
  // The same for arguments like the original's: tensors, iterators and structures of them.
  template <typename First, typename... More>
  std::vector<Tensor> operator()(const First& first, const More&... more) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Makes a Function of `body`, a callable of tensors and structures of them.
template <typename F>
Function<F> function(F body, FunctionOptions options = {}) {
  return Function<F>(std::move(body), std::move(options));
}

}  // namespace cohort

#include "cohort/internal/function_inl.h"  // IWYU pragma: export
