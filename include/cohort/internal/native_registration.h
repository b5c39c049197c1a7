#pragma once

// How COHORT_FUNCTION registers a callable. Not for inclusion by users: include
// cohort/native_function.h.

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cohort/internal/nest.h"
#include "cohort/native_function.h"

namespace cohort::internal {

// Throws InvalidArgument unless there are `least` tensors, or more if `open`.
void check_native_arguments(size_t least, bool open, size_t given);

// TensorCount is how many tensors a parameter takes: a fixed number, or also all the rest.
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

// Moves as many tensors as `into` takes from the front of `rest`. A vector takes all tensors.
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

// Makes a function of a list of tensors from a function of tensors and structures of tensors. A
// vector must be the last parameter: it takes the rest.
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

// NativeRegistration registers a function of the program. It never throws: if a name is registered
// twice, calls of that name throw.
//
// The library lists its own ops in one place, and nothing in it registers itself, because a linker
// may drop object files that nothing refers to. These functions are the exception: they belong to
// the user's program, which the library cannot list, and whose object files are always linked.
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

}  // namespace cohort::internal
