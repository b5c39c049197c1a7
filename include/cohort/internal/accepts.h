#pragma once

#include <concepts>
#include <functional>
#include <type_traits>

// Whether a callable takes given arguments. Not for inclusion by users.

namespace cohort::internal {

// What the call of a Function<F> gives whose arguments do not fit. The compiler refuses each such
// call, but not the question what it would give.
struct DoesNotFit {};

// As std::invocable, for traced functions, too.
template <typename F, typename... Args>
concept Accepts =
    std::invocable<F, Args...> && !std::same_as<std::invoke_result_t<F, Args...>, DoesNotFit>;

}  // namespace cohort::internal
