#pragma once

// Definitions of Function's templates. Not for inclusion by users: include cohort/function.h.

#include <typeinfo>

#include "cohort/function.h"

namespace cohort {

template <typename F>
template <typename... Args>
requires std::invocable<const F&, Args...>
auto Function<F>::operator()(const Args&... args) const {
  using Result = std::decay_t<std::invoke_result_t<const F&, Args...>>;
  const internal::TracedResults results = core_.call(flat(args...), traced(args...));
  if constexpr (!std::is_void_v<Result>) {
    size_t next = 0;
    return internal::replace_tensors(*static_cast<const Result*>(results.structure.get()),
                                     internal::span_of(results.tensors), next);
  }
}

template <typename F>
template <typename... Args>
requires(!std::invocable<const F&, Args...>) internal::DoesNotFit Function<F>::operator()(
    const Args&...) const {
  static_assert(std::invocable<const F&, Args...>,
                "function(f)(arguments...): the function cannot be called with these arguments");
  return {};
}

template <typename F>
template <typename... Args>
std::string Function<F>::serialize(const Args&... args) const {
  return core_.serialize(flat(args...), traced(args...));
}

template <typename F>
template <typename... Args>
internal::TracedCall Function<F>::trace(const Args&... args) const {
  internal::Flat arguments = flat(args...);
  auto trace = core_.trace(arguments, traced(args...));
  return {std::move(trace), std::move(arguments.tensors)};
}

template <typename F>
template <typename... Args>
internal::Flat Function<F>::flat(const Args&... args) {
  internal::Flat flat{.types = typeid(std::tuple<Args...>).hash_code()};
  (internal::add_argument(args, flat), ...);
  return flat;
}

// Returns the body as a function of symbols, which replace the tensors of the arguments. The
// function refers to `args`.
template <typename F>
template <typename... Args>
auto Function<F>::traced(const Args&... args) const {
  return [this, &args...]([[maybe_unused]] std::span<const Tensor> symbols) {
    using Result = std::decay_t<std::invoke_result_t<const F&, Args...>>;
    [[maybe_unused]] size_t next = 0;
    // Braces evaluate from left to right.
    const std::tuple<Args...> rebuilt{internal::replace_tensors(args, symbols, next)...};
    internal::TracedResults results;
    if constexpr (std::is_void_v<Result>) {
      std::apply(body_, rebuilt);
    } else {
      auto made = std::make_shared<const Result>(std::apply(body_, rebuilt));
      internal::collect_tensors(*made, results.tensors);
      results.structure = std::move(made);
    }
    return results;
  };
}

template <typename First, typename... More>
std::vector<Tensor> SerializedFunction::operator()(const First& first, const More&... more) const {
  std::vector<Tensor> tensors;
  internal::collect_tensors(first, tensors);
  (internal::collect_tensors(more, tensors), ...);
  return (*this)(tensors);
}

}  // namespace cohort
