#include "base/raise.h"
#include "cohort/strategy.h"
#include "distribute/context.h"
#include "distribute/default_strategy.h"
#include "distribute/distributed_variable.h"
#include "distribute/replica_reductions.h"
#include "distribute/replica_threads.h"
#include "distribute/run_observers.h"
#include "distribute/strategy_devices.h"
#include "distribute/undistributed.h"
#include "distribute/variables.h"
#include "ops/variable_cell.h"

namespace cohort {

StrategyExtended::StrategyExtended()
    : replica_threads_(std::make_unique<internal::ReplicaThreadPool>()) {
  internal::connect_replica_ops();
}
StrategyExtended::~StrategyExtended() = default;

Strategy& StrategyExtended::strategy() const {
  if (strategy_ != nullptr) return *strategy_;
  internal::raise(Code::FailedPrecondition, "[{}] is not part of a Strategy yet", name());
}

size_t StrategyExtended::num_local_replicas() const { return worker_devices().size(); }

int StrategyExtended::num_replicas_in_sync() const {
  return static_cast<int>(num_local_replicas());
}

InputContext StrategyExtended::input_context() const {
  return InputContext(1, 0, num_replicas_in_sync());
}

std::vector<std::string> StrategyExtended::gather_from_workers(const std::string& here,
                                                               const std::string&) {
  return {here};
}

std::vector<int64_t> StrategyExtended::sum_numbers(const std::vector<int64_t>& here,
                                                   const std::string&) {
  return here;
}

void StrategyExtended::call_for_each_replica(const std::function<void(ReplicaContext&)>& body) {
  internal::require_cross_replica_or_default(strategy(), "call_for_each_replica");
  internal::ObservedRun run(strategy());
  {
    const internal::ReplicaThreadPool::Lease threads(*replica_threads_, strategy());
    threads->run(body);
  }
  run.end();
}

CrossDeviceOps& StrategyExtended::cross_device_ops() const {
  static ReductionToOneDevice on_first_destination;
  return on_first_destination;
}

DistributedValue StrategyExtended::reduce_to(ReduceOp op, const DistributedValue& value,
                                             const Destinations& destinations,
                                             const CommunicationOptions& options) {
  internal::require_cross_replica_or_default(strategy(), "reduce_to");
  if (auto common = internal::reduce_undistributed(op, value, destinations, cross_device_ops(),
                                                   num_replicas_in_sync())) {
    return *std::move(common);
  }
  return cross_device_ops().reduce(op, value, destinations, options);
}

DistributedValue StrategyExtended::broadcast_to(const Tensor& value,
                                                const Destinations& destinations) {
  internal::require_cross_replica_or_default(strategy(), "broadcast_to");
  return internal::broadcast_value(value, destinations, cross_device_ops());
}

DistributedValue StrategyExtended::gather_to(const DistributedValue& value,
                                             const Destinations& destinations, int axis,
                                             const CommunicationOptions& options) {
  internal::require_cross_replica_or_default(strategy(), "gather_to");
  if (value.kind() == DistributedValue::Kind::Plain) return value;
  return cross_device_ops().gather(value, destinations, axis, options);
}

std::vector<DistributedValue> StrategyExtended::batch_reduce_to(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  std::vector<DistributedValue> reduced;
  for (const ReduceRequest& request : requests) {
    reduced.push_back(reduce_to(op, request.value, request.destinations, options));
  }
  return reduced;
}

std::unique_ptr<StrategyExtended> StrategyExtended::clone() const {
  internal::raise(Code::Unimplemented, "[{}] cannot be copied: it does not override clone()",
                  name());
}

ReplicaContext* StrategyExtended::own_replica() const {
  const internal::Mode* mode = internal::current_mode();
  return mode != nullptr && mode->strategy == strategy_ ? mode->replica : nullptr;
}

DistributedValue StrategyExtended::update_places(const Destinations& where,
                                                 const std::function<Tensor(size_t)>& change) {
  internal::require_cross_replica_or_default(strategy(), "update_non_slot");
  const internal::EnterOrAssert inside(strategy(), "update_non_slot");
  std::vector<Gradient> results;
  for (size_t k = 0; k < where.devices().size(); ++k) {
    const internal::UpdateScope updating(k);
    const internal::CopyDeviceScope there(where.devices()[k]);
    results.emplace_back(change(k));
  }
  return {DistributedValue::Kind::Mirrored, std::move(results)};
}

std::vector<std::string> StrategyExtended::non_slot_devices(const std::vector<Variable>&) const {
  return parameter_devices();
}

Tensor StrategyExtended::read_var(const Variable& variable) {
  const internal::ModeScope cross({&strategy(), nullptr});
  const internal::UpdateScope no_copy_alone(std::nullopt);
  return variable.read_value();
}

Variable StrategyExtended::value_container(const Variable& copy) const {
  return internal::container_of(copy);
}

VariableCreatorScope StrategyExtended::colocate_vars_with(const Variable& variable) {
  internal::require_scope(strategy(), "colocate_vars_with");
  if (!variable_created_in_scope(variable)) {
    internal::raise(Code::InvalidArgument,
                    "[colocate_vars_with] variable '{}' was not made in the scope of {}",
                    variable.name(), name());
  }
  const auto devices =
      std::make_shared<const std::vector<std::string>>(DistributedValue(variable).devices());
  return VariableCreatorScope([devices](const NextCreator& next, const VariableRequest& request) {
    const internal::CreationDevices there(*devices);
    return next(request);
  });
}

bool StrategyExtended::variable_created_in_scope(const Variable& variable) const {
  const Strategy* made_by = internal::VariableAccess::impl(variable)->strategy;
  return made_by == (strategy_ == &internal::default_strategy() ? nullptr : strategy_);
}

std::vector<std::string> StrategyExtended::resolve_devices(std::string_view strategy,
                                                           const std::vector<std::string>& names) {
  return internal::resolve_devices(strategy, names);
}

Variable StrategyExtended::create_variable(const NextCreator& next,
                                           const VariableRequest& request) {
  const std::vector<std::string> devices = parameter_devices();
  const Variable made = internal::make_mirrored_variable(
      strategy(), internal::CreationDevices::current(devices), next, request);
  internal::distributed(made)->share_order(replica_threads_->order());
  return made;
}

DistributedValue StrategyExtended::update_copies(const Variable& variable, const Change& change) {
  internal::require_cross_replica_or_default(strategy(), "update");
  if (!variable_created_in_scope(variable)) {
    internal::raise(Code::InvalidArgument,
                    "[update] variable '{}' was not made in the scope of {}, so it has no copies "
                    "to update; make it inside strategy.scope()",
                    variable.name(), name());
  }
  return internal::change_copies(variable, change);
}

}  // namespace cohort
