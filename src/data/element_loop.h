#pragma once

#include <span>
#include <vector>

#include "cohort/ops.h"
#include "data/iterator.h"
#include "ops/dispatch.h"

namespace cohort::data::internal {

// Adds a loop to the traced graph: state = body(state, element) for each element that `iterator`
// has left. The element is not part of the loop's state, because shapes of the state must not
// change.
template <typename It, typename Body>
std::vector<Tensor> traced_loop(It& iterator, const std::vector<Tensor>& initial, const Body& body,
                                Site site) {
  std::vector<Tensor> state{Tensor(true)};  // whether to continue, then the user's state
  state.insert(state.end(), initial.begin(), initial.end());
  const LoopBody step = [&](std::span<const Tensor> before) {
    const std::span<const Tensor> given = before.subspan(1);
    const auto next = iterator.next_as_optional(site);
    const Branch one_more = [&] { return body(given, next.value()); };
    const Branch keep = [&] { return std::vector<Tensor>(given.begin(), given.end()); };
    std::vector<Tensor> after = cond(next.has_value(), one_more, keep, site);
    after.insert(after.begin(), next.has_value());
    return after;
  };
  state = while_loop([](std::span<const Tensor> now) { return now[0]; }, step, state, {}, site);
  state.erase(state.begin());
  return state;
}

// Runs the loop, or adds it to the graph if this thread is tracing.
template <typename It, typename Body>
std::vector<Tensor> loop_over(It& iterator, std::vector<Tensor> state, const Body& body,
                              Site site) {
  if (cohort::internal::Access::handle(iterator).is_symbolic() || cohort::internal::is_tracing()) {
    return traced_loop(iterator, state, body, site);
  }
  for (auto next = iterator.next_as_optional(); next.has_value().template to<bool>();
       next = iterator.next_as_optional()) {
    state = body(state, next.value());
  }
  return state;
}

// Calls `body` with each element, and returns the number of elements.
template <typename It, typename Body>
Tensor count_over(It& iterator, const Body& body, Site site) {
  const auto step = [&](std::span<const Tensor> count, const auto& element) {
    body(element);
    return std::vector<Tensor>{count[0] + int64_t{1}};
  };
  return loop_over(iterator, {Tensor(int64_t{0})}, step, site)[0];
}

}  // namespace cohort::data::internal
