#include "train/update_route.h"

#include <atomic>

#include "base/raise.h"

namespace cohort::internal {
namespace {

std::atomic<UpdateRouteFinder> finder_in_use = nullptr;

std::atomic<const VariableJointer*> jointer_in_use = nullptr;

}  // namespace

std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables) {
  const VariableJointer* jointer = jointer_in_use.load(std::memory_order_acquire);
  if (jointer == nullptr) return std::nullopt;
  return jointer->expand(gradients, variables);
}

std::vector<Variable> parts_of_variable(const Variable& variable) {
  const std::optional<VariableParts> parts = expand_variables({Gradient()}, {variable});
  return parts ? parts->variables : std::vector<Variable>();
}

Variable join_variables(const std::vector<Variable>& parts, const std::string& name) {
  const VariableJointer* jointer = jointer_in_use.load(std::memory_order_acquire);
  if (jointer != nullptr) return jointer->join(parts, name);
  raise(Code::FailedPrecondition, "[Variable] '{}' has no parts", name);
}

void set_variable_jointer(const VariableJointer& jointer) {
  jointer_in_use.store(&jointer, std::memory_order_release);
}

std::unique_ptr<UpdateRoute> find_update_route(const std::vector<Variable>& variables) {
  const UpdateRouteFinder finder = finder_in_use.load(std::memory_order_acquire);
  return finder != nullptr ? finder(variables) : nullptr;
}

void set_update_route_finder(UpdateRouteFinder finder) {
  finder_in_use.store(finder, std::memory_order_release);
}

}  // namespace cohort::internal
