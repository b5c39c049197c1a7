#include "train/update_path.h"

#include <atomic>

#include "base/raise.h"

namespace cohort::internal {
namespace {

std::atomic<UpdatePathFinder> finder_in_use = nullptr;

std::atomic<const ShardedVariableHooks*> jointer_in_use = nullptr;

}  // namespace

std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables) {
  const ShardedVariableHooks* jointer = jointer_in_use.load(std::memory_order_acquire);
  if (jointer == nullptr) return std::nullopt;
  return jointer->expand(gradients, variables);
}

std::vector<Variable> parts_of_variable(const Variable& variable) {
  const std::optional<VariableParts> parts = expand_variables({Gradient()}, {variable});
  return parts ? parts->variables : std::vector<Variable>();
}

Variable join_variables(const std::vector<Variable>& parts, const std::string& name) {
  const ShardedVariableHooks* jointer = jointer_in_use.load(std::memory_order_acquire);
  if (jointer != nullptr) return jointer->join(parts, name);
  raise(Code::FailedPrecondition, "[Variable] '{}' has no parts", name);
}

void set_sharded_variable_hooks(const ShardedVariableHooks& jointer) {
  jointer_in_use.store(&jointer, std::memory_order_release);
}

std::unique_ptr<UpdatePath> find_update_route(const std::vector<Variable>& variables) {
  const UpdatePathFinder finder = finder_in_use.load(std::memory_order_acquire);
  return finder != nullptr ? finder(variables) : nullptr;
}

void set_update_route_finder(UpdatePathFinder finder) {
  finder_in_use.store(finder, std::memory_order_release);
}

}  // namespace cohort::internal
