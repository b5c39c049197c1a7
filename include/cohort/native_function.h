#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "cohort/tensor.h"

// C++ functions, such as host code or LibTorch modules, as single nodes of graphs. A graph stores
// only the name of such a function. Another process can therefore run the graph if its program
// registers a function of that name.
//
//   // At namespace scope, in one source file:
//   COHORT_FUNCTION(halve, [](const Tensor& v) { return v / 2.f; });
//   // In a graph, or at once:
//   Tensor half = call_native("halve", {x}, {{kFloat32}})[0];

namespace cohort {

// NativeFunction returns the outputs of a call from its inputs.
using NativeFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;
// NativeGradient gets the inputs and outputs of a call, and d(result)/d(output) for each output,
// which is undefined if the output is not floating. It returns d(result)/d(input) for each input,
// undefined if the derivative is zero or the input is not floating.
using NativeGradient = std::function<std::vector<Tensor>(std::span<const Tensor> inputs,
                                                         std::span<const Tensor> outputs,
                                                         std::span<const Tensor> output_gradients)>;

// Calls the function that is registered as `name`, at once or as one node of the graph being built.
// A run calls the function once, with values, whether or not its results are used. The function
// runs on the thread of the run, and several threads may call it at the same time. It must return
// as many tensors as `outputs` lists, with these dtypes and fitting shapes (InvalidArgument). If
// `outputs` is empty, call_native() returns one empty tensor; run it to call the function.
//
// A call (in a graph, its run) throws NotFound if this program has no function of that name, and
// AlreadyExists if it has several. What the function throws becomes an Error that names it.
std::vector<Tensor> call_native(std::string_view name, const std::vector<Tensor>& inputs,
                                const std::vector<TensorSpec>& outputs, Site site = Site::here());

}  // namespace cohort

#include "cohort/internal/native_registration.h"  // IWYU pragma: export

// Registers a callable under a name, which must be an identifier. The callable takes a list of
// tensors (NativeFunction), or tensors and structures of them.
#define COHORT_FUNCTION(name, ...)                                                         \
  static const ::cohort::internal::NativeRegistration cohort_native_function_##name(#name, \
                                                                                    __VA_ARGS__)
// The same with a NativeGradient after the callable: (name, callable, gradient).
#define COHORT_FUNCTION_WITH_GRADIENT(name, ...) COHORT_FUNCTION(name, __VA_ARGS__)
