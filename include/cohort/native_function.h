#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/internal/nest.h"
#include "cohort/site.h"
#include "cohort/tensor.h"

// C++ functions as single nodes of graphs: host code, LibTorch modules. A graph knows such a
// function by its name alone, so it may go to another process whose program has one of that
// name.
//
//   Tensor clip(Tensor x) { ... }
//   COHORT_FUNCTION(clip, clip);                      // at namespace scope, in one source file
//   Tensor y = call_native("clip", {x}, {{kFloat32}})[0];

namespace cohort {

// Dtype and shape of a tensor that is not there yet.
struct TensorSpec {
  DType dtype;
  Shape shape = Shape::unknown();
};

using NativeFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;
// Gets inputs and outputs of a call and d(result)/d(output) for each output, undefined for those
// that are not floating; returns d(result)/d(input) for each input, undefined where that is zero or
// the input not floating.
using NativeGradient = std::function<std::vector<Tensor>(std::span<const Tensor> inputs,
                                                         std::span<const Tensor> outputs,
                                                         std::span<const Tensor> output_gradients)>;

// Calls the function that is registered as `name`, at once or as one node of the graph being built.
// It runs on values, on the thread of the run, perhaps on several at the same time, and once per
// run whether or not its results are used. It must return as many tensors as `outputs` says, of
// those dtypes and fitting shapes (InvalidArgument); without outputs the result is one empty tensor
// to run it by.
//
// When it runs: NotFound when this program has no function of that name, AlreadyExists when it has
// several. What the function throws becomes an Error that names it.
std::vector<Tensor> call_native(std::string_view name, const std::vector<Tensor>& inputs,
                                const std::vector<TensorSpec>& outputs, Site site = Site::here());

namespace internal {

// Throws InvalidArgument unless there are `least` tensors, or more when `open`.
void check_native_arguments(size_t least, bool open, size_t given);

// How many tensors a parameter takes: a fixed number, or all the rest as well.
template <typename T>
struct TensorCount;
template <>
struct TensorCount<Tensor> {
  static constexpr size_t kLeast = 1;
  static constexpr bool kOpen = false;
};
template <>
struct TensorCount<std::vector<Tensor>> {
  static constexpr size_t kLeast = 0;
  static constexpr bool kOpen = true;
};
template <typename... T>
struct TensorCount<std::tuple<T...>> {
  static constexpr size_t kLeast = (size_t{0} + ... + TensorCount<T>::kLeast);
  static constexpr bool kOpen = (false || ... || TensorCount<T>::kOpen);
};
template <typename A, typename B>
struct TensorCount<std::pair<A, B>> : TensorCount<std::tuple<A, B>> {};

// Moves as many tensors as `into` takes from the front of `rest`. A vector takes all of them.
template <typename T>
void take_tensors(T& into, std::span<const Tensor>& rest) {
  if constexpr (std::same_as<T, Tensor>) {
    into = rest.front();
    rest = rest.subspan(1);
  } else if constexpr (std::same_as<T, std::vector<Tensor>>) {
    into.assign(rest.begin(), rest.end());
    rest = {};
  } else {
    std::apply([&](auto&... part) { (take_tensors(part, rest), ...); }, into);
  }
}

// Makes a function of a list of tensors from a function of tensors and structures of them. A vector
// must be the last parameter: it takes the rest.
template <typename Result, typename... Args>
NativeFunction listed(std::function<Result(Args...)> body) {
  return [body = std::move(body)](std::span<const Tensor> inputs) {
    using Arguments = std::tuple<std::remove_cvref_t<Args>...>;
    check_native_arguments(TensorCount<Arguments>::kLeast, TensorCount<Arguments>::kOpen,
                           inputs.size());
    Arguments arguments;
    take_tensors(arguments, inputs);
    std::vector<Tensor> results;
    if constexpr (std::is_void_v<Result>) {
      std::apply(body, std::move(arguments));
    } else {
      visit_leaves([&](const auto& leaf) { results.push_back(static_cast<Tensor>(leaf)); },
                   std::apply(body, std::move(arguments)));
    }
    return results;
  };
}

template <typename F>
NativeFunction as_native(F body) {
  if constexpr (std::is_invocable_r_v<std::vector<Tensor>, F&, std::span<const Tensor>>) {
    return NativeFunction(std::move(body));
  } else {
    return listed(std::function(std::move(body)));
  }
}

// Puts a function on the program's list. Never throws: a second one of the same name is told to
// those who call it.
//
// The library's own ops are listed in one place and nothing registers itself, because a linker may
// drop object files that nothing refers to. These functions are the exception: they are in the
// user's program, which the library cannot list, and whose object files are always linked.
class NativeRegistration {
 public:
  template <typename F>
  NativeRegistration(const char* name, F function) {
    add(name, as_native(std::move(function)), nullptr);
  }
  template <typename F>
  NativeRegistration(const char* name, F function, NativeGradient gradient) {
    add(name, as_native(std::move(function)), std::move(gradient));
  }

 private:
  static void add(std::string name, NativeFunction function, NativeGradient gradient);
};

}  // namespace internal
}  // namespace cohort

// Registers a callable of a list of tensors (NativeFunction), or of tensors and structures of them,
// under a name, which is an identifier.
#define COHORT_FUNCTION(name, ...)                                                         \
  static const ::cohort::internal::NativeRegistration cohort_native_function_##name(#name, \
                                                                                    __VA_ARGS__)
// The same with a NativeGradient after the callable: (name, callable, gradient).
#define COHORT_FUNCTION_WITH_GRADIENT(name, ...) COHORT_FUNCTION(name, __VA_ARGS__)
