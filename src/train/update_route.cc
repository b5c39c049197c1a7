#include "train/update_route.h"

#include <atomic>

namespace cohort::internal {
namespace {

std::atomic<UpdateRouteFinder> finder_in_use = nullptr;

std::atomic<VariableExpander> expander_in_use = nullptr;

}  // namespace

std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables) {
  const VariableExpander expander = expander_in_use.load(std::memory_order_acquire);
  if (expander == nullptr) return std::nullopt;
  return expander(gradients, variables);
}

void set_variable_expander(VariableExpander expander) {
  expander_in_use.store(expander, std::memory_order_release);
}

std::unique_ptr<UpdateRoute> find_update_route(const std::vector<Variable>& variables) {
  const UpdateRouteFinder finder = finder_in_use.load(std::memory_order_acquire);
  return finder != nullptr ? finder(variables) : nullptr;
}

void set_update_route_finder(UpdateRouteFinder finder) {
  finder_in_use.store(finder, std::memory_order_release);
}

}  // namespace cohort::internal
