#include "distribute/variables/variable_creation.h"

#include <fmt/format.h>

#include <optional>

#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/graph.h"
#include "distribute/contexts/context.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/variable_kinds.h"

namespace cohort::internal {
namespace {

void check_aggregation(const VariableOptions& options) {
  switch (options.aggregation) {
    case VariableAggregation::None:
    case VariableAggregation::Sum:
    case VariableAggregation::Mean:
    case VariableAggregation::OnlyFirstReplica:
      return;
  }
  raise(Code::InvalidArgument,
        "[Variable] '{}' asks for aggregation number {}, which does not exist", options.name,
        static_cast<int>(options.aggregation));
}

VariableSynchronization checked_synchronization(const VariableOptions& options) {
  switch (options.synchronization) {
    case VariableSynchronization::Auto:
    case VariableSynchronization::OnWrite:
      return VariableSynchronization::OnWrite;
    case VariableSynchronization::OnRead:
      return VariableSynchronization::OnRead;
    case VariableSynchronization::None:
      raise(Code::InvalidArgument,
            "[Variable] '{}' asks for synchronization None, but a strategy keeps its copies "
            "together; use OnWrite (or Auto) or OnRead",
            options.name);
  }
  raise(Code::InvalidArgument,
        "[Variable] '{}' asks for synchronization number {}, which does not exist", options.name,
        static_cast<int>(options.synchronization));
}

// The options as they are in effect.
VariableOptions settled(const VariableOptions& options) {
  check_aggregation(options);
  VariableOptions settled = options;
  settled.synchronization = checked_synchronization(options);
  settled.trainable =
      options.trainable.value_or(settled.synchronization != VariableSynchronization::OnRead);
  return settled;
}

void check_mean(const Variable& first) {
  if (first.aggregation() != VariableAggregation::Mean || is_floating(first.dtype())) return;
  raise(Code::InvalidArgument,
        "[Variable] '{}' is {}, but its aggregation computes a mean; use a floating dtype, Sum or "
        "OnlyFirstReplica",
        first.name(), to_string(first.dtype()));
}

// What `initializer` gave when it was first called.
Initializer once(const Initializer& initializer) {
  if (!initializer) return initializer;
  return [initializer, value = std::make_shared<Tensor>()] {
    if (!value->defined()) *value = initializer();
    return *value;
  };
}

}  // namespace

Variable make_mirrored_variable(Strategy& strategy, const std::vector<std::string>& devices,
                                const NextCreator& next, const VariableRequest& request) {
  VariableRequest each{once(request.initializer), settled(request.options)};
  const std::string name = request.options.name;
  std::vector<Variable> copies;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceScope there(devices[i]);
    std::optional<NameScope> outside;  // the first copy's name has the open scopes already
    if (i > 0) {
      outside.emplace("");
      each.options.name = fmt::format("{}/replica_{}", copies[0].name(), i);
    }
    copies.push_back(next(each));
    check_mean(copies[0]);
  }
  each.options.name = name;
  if (each.options.synchronization == VariableSynchronization::OnRead) {
    return adopt_copies(strategy, std::make_shared<SyncOnReadVariable>(copies, each.options));
  }
  return adopt_copies(strategy, std::make_shared<MirroredVariable>(copies, each.options));
}

Variable make_aggregating_variable(Strategy& strategy, const std::string& device,
                                   const NextCreator& next, const VariableRequest& request) {
  const VariableRequest one{request.initializer, settled(request.options)};
  const Variable copy = make_plain_variable(strategy, device, next, one);
  if (strategy.num_replicas_in_sync() == 1) return copy;
  check_mean(copy);
  return adopt_copies(strategy,
                      std::make_shared<AggregatingVariable>(std::vector{copy}, one.options));
}

Variable make_plain_variable(Strategy& strategy, const std::string& device, const NextCreator& next,
                             const VariableRequest& request) {
  const DeviceScope there(device);
  const Variable made = next(request);
  VariableAccess::impl(made)->strategy = &strategy;
  return made;
}

Variable create_in(Strategy& strategy, const NextCreator& next, const VariableRequest& request) {
  const Variable made = strategy.extended().create_variable(next, request);
  Strategy*& owner = VariableAccess::impl(made)->strategy;
  if (owner == nullptr && &strategy != &default_strategy()) owner = &strategy;
  return made;
}

}  // namespace cohort::internal
