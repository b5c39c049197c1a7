#include "distribute/variables.h"

#include "cohort/device.h"
#include "distribute/context.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"

namespace cohort::internal {
namespace {

const std::vector<std::string>*& creation_devices() {
  thread_local const std::vector<std::string>* devices = nullptr;
  return devices;
}

}  // namespace

Variable make_plain_variable(Strategy& strategy, const std::string& device, const NextCreator& next,
                             const VariableRequest& request) {
  const DeviceScope there(device);
  const Variable made = next(request);
  VariableAccess::impl(made)->strategy = &strategy;
  return made;
}

Variable make_mirrored_variable(Strategy& strategy, const std::vector<std::string>& devices,
                                const NextCreator& next, const VariableRequest& request) {
  return make_plain_variable(strategy, devices.front(), next, request);
}

Variable make_aggregating_variable(Strategy& strategy, const std::string& device,
                                   const NextCreator& next, const VariableRequest& request) {
  return make_plain_variable(strategy, device, next, request);
}

std::vector<Variable> copies_of(const Variable& variable) { return {variable}; }

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
  std::vector<Gradient> results;
  for (size_t k = 0; k < copies.size(); ++k) {
    const UpdateScope updating(k);
    const DeviceScope there(copies[k].device());
    results.emplace_back(change(copies[k], k));
  }
  return {DistributedValue::Kind::Mirrored, std::move(results)};
}

CreationDevices::CreationDevices(const std::vector<std::string>& devices)
    : outer_(creation_devices()) {
  creation_devices() = &devices;
}
CreationDevices::~CreationDevices() { creation_devices() = outer_; }

std::vector<std::string> CreationDevices::current(const std::vector<std::string>& all) {
  return creation_devices() != nullptr ? *creation_devices() : all;
}

}  // namespace cohort::internal
