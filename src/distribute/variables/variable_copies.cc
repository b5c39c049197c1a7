#include "distribute/variables/variable_copies.h"

#include <utility>

#include "distribute/contexts/context.h"
#include "distribute/variables/distributed_variable.h"
#include "ops/dispatch.h"
#include "tensor/devices.h"

namespace cohort::internal {

std::vector<Variable> copies_of(const Variable& variable) {
  const auto whole = distributed(variable);
  return whole != nullptr ? whole->copies() : std::vector{variable};
}

Tensor read_copy(const Variable& copy) {
  const RecordingPause unheard;
  return copy.read_value();
}

Variable container_of(const Variable& copy) {
  const std::shared_ptr<VariableImpl> whole = VariableAccess::impl(copy)->whole.lock();
  return whole != nullptr ? VariableAccess::make(whole) : copy;
}

bool is_mirrored(const Variable& variable) {
  return VariableAccess::impl(variable)->strategy != nullptr &&
         variable.synchronization() != VariableSynchronization::OnRead;
}

DistributedValue change_copies(const Variable& variable, const StrategyExtended::Change& change) {
  const std::vector<Variable> copies = copies_of(variable);
  const auto whole = distributed(variable);
  std::optional<ModeScope> across;
  if (whole != nullptr) {
    whole->use("update");
    across.emplace(Mode{&whole->owner(), nullptr});
    whole->note_own_write();  // `change` may do something else for each copy
  }
  const WritersTurn turn = turn_to_write(variable);
  std::vector<Gradient> results;
  for (size_t k = 0; k < copies.size(); ++k) {
    const UpdateScope updating(k);
    const CopyDeviceScope there(copies[k].device());
    results.emplace_back(change(copies[k], k));
  }
  return {DistributedValue::Kind::Mirrored, std::move(results)};
}

CopyDeviceScope::CopyDeviceScope(const std::string& device) {
  const auto is_of_this_task = [&] {
    return has_device(device) ||
           DeviceName::parse_any_form(device).job.value_or("localhost") == "localhost";
  };
  if (thread_dispatch().builder != nullptr || is_of_this_task()) scope_.emplace(device);
}

}  // namespace cohort::internal
