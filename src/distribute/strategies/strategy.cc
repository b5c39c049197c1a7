// What every strategy is: Strategy, and the functions of StrategyExtended for replicas that are
// threads of this process.

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <ostream>

#include "base/raise.h"
#include "cohort/strategy_extended.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/contexts/replica_threads.h"
#include "distribute/strategies/strategy_impl.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/variable_creation.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

void check_parts(const Shape& shape, const std::vector<int64_t>& parts) {
  if (shape.has_rank() && static_cast<size_t>(shape.rank()) != parts.size()) {
    internal::raise(
        Code::InvalidArgument,
        "[split_to_logical_devices] shape {} needs a number of parts for each dimension, got {}",
        shape.to_string(), parts.size());
  }
  for (size_t axis = 0; axis < parts.size(); ++axis) {
    const int64_t size = shape.has_rank() ? shape[static_cast<int>(axis)] : Shape::kUnknownDim;
    if (parts[axis] >= 1 && (size < 0 || size % parts[axis] == 0)) continue;
    internal::raise(
        Code::InvalidArgument,
        "[split_to_logical_devices] dimension {} of shape {} cannot be cut into {} equal parts",
        axis, shape.to_string(), parts[axis]);
  }
}

}  // namespace

// ---- Strategy

Strategy::Strategy(std::unique_ptr<StrategyExtended> extended)
    : id_(next_id()), extended_(std::move(extended)) {
  if (extended_ == nullptr) {
    internal::raise(Code::InvalidArgument, "[Strategy] needs a StrategyExtended, got nullptr");
  }
  extended_->attach(*this);
  const std::optional<int64_t> interval = extended_->guards().divergence_interval;
  if (interval && *interval < 1) {
    internal::raise(Code::InvalidArgument,
                    "[Strategy] the divergence_interval of the guards must be at least 1, got {}; "
                    "leave it empty to compare no copies",
                    *interval);
  }
}

Strategy::~Strategy() { internal::end_installed_scope(*this); }

std::unique_ptr<Strategy> Strategy::deep_copy() const {
  if (this == &internal::default_strategy()) {
    internal::raise(Code::FailedPrecondition,
                    "[Strategy] there is one default strategy; it cannot be copied");
  }
  if (const auto* cloneable = dynamic_cast<const CloneableStrategy*>(extended_.get())) {
    return std::make_unique<Strategy>(cloneable->clone());
  }
  internal::raise(
      Code::Unimplemented,
      "[{}] cannot be copied: it does not derive from CloneableStrategy, which has clone()",
      extended_->name());
}

int Strategy::num_replicas_in_sync() const { return extended_->num_replicas_in_sync(); }

const ClusterResolver* Strategy::cluster_resolver() const { return extended_->cluster_resolver(); }

namespace internal {

size_t num_local_replicas(const Strategy& strategy) {
  return strategy.extended().num_local_replicas();
}

int replica_id(const Strategy& strategy, size_t local_replica) {
  return strategy.extended().replica_id(local_replica);
}

bool is_single(const Strategy& strategy) { return strategy.extended().traits().is_single; }

}  // namespace internal

std::string Strategy::to_string() const {
  if (this == &internal::default_strategy()) return "DefaultStrategy()";
  std::string devices;
  for (const std::string& device : extended_->worker_devices()) {
    devices += fmt::format("{}'{}'", devices.empty() ? "" : ", ", device);
  }
  return fmt::format("{}(devices=[{}], num_replicas_in_sync={})", extended_->name(), devices,
                     num_replicas_in_sync());
}

std::ostream& operator<<(std::ostream& out, const Strategy& strategy) {
  return out << strategy.to_string();
}

Tensor Strategy::assign_to_logical_device(const Tensor& value, int logical_device) const {
  if (logical_device == 0) return value;
  internal::raise(Code::InvalidArgument,
                  "[assign_to_logical_device] each replica of {} has one logical device, 0, so "
                  "device {} does not exist; use 0",
                  extended_->name(), logical_device);
}

Tensor Strategy::split_to_logical_devices(const Tensor& value,
                                          const std::vector<int64_t>& parts) const {
  check_parts(value.shape(), parts);
  for (const int64_t count : parts) {
    if (count == 1) continue;
    internal::raise(
        Code::InvalidArgument,
        "[split_to_logical_devices] each replica of {} has one logical device, but parts [{}] are "
        "for several; give 1 for each dimension",
        extended_->name(), fmt::join(parts, ", "));
  }
  return value;
}

// ---- StrategyExtended

StrategyExtended::StrategyExtended() : impl_(std::make_unique<internal::StrategyImpl>()) {}
StrategyExtended::~StrategyExtended() = default;

void StrategyExtended::attach(Strategy& strategy) {
  internal::StrategyImpl& impl = *impl_;
  impl.strategy = &strategy;
  impl.local_replicas = traits().is_single ? 1 : worker_devices().size();
  impl.replicas_in_sync = static_cast<int>(impl.local_replicas);
  if (const auto* workers = dynamic_cast<const CrossWorkerInput*>(this)) {
    const InputContext input = workers->input_context();
    impl.first_replica_id = input.input_pipeline_id() * impl.replicas_in_sync;
    impl.replicas_in_sync = input.num_replicas_in_sync();
  }
  const CrossDeviceOps& reduces = cross_device_ops();
  const bool all_are_here = static_cast<size_t>(impl.replicas_in_sync) == impl.local_replicas;
  if (!all_are_here || typeid(reduces) != typeid(DirectAllReduce)) return;
  impl.thread_all_reduce = std::make_unique<internal::ThreadAllReduce>(worker_devices());
}

Strategy& StrategyExtended::strategy() const {
  if (impl_->strategy != nullptr) return *impl_->strategy;
  internal::raise(Code::FailedPrecondition, "[{}] is not part of a Strategy yet", name());
}

size_t StrategyExtended::num_local_replicas() const { return impl_->local_replicas; }

int StrategyExtended::num_replicas_in_sync() const { return impl_->replicas_in_sync; }

int StrategyExtended::replica_id(size_t local_replica) const {
  return impl_->first_replica_id + static_cast<int>(local_replica);
}

// ---- What it is

std::string StrategyExtended::default_device() const {
  return traits().opens_device ? worker_devices().front() : "";
}

std::vector<std::string> StrategyExtended::input_devices() const {
  return traits().moves_input ? worker_devices() : std::vector<std::string>(impl_->local_replicas);
}

size_t StrategyExtended::replicas_on_host() const {
  const size_t known = traits().replicas_on_host;
  return known != 0 ? known : impl_->local_replicas;
}

InputContext StrategyExtended::input_context() const {
  const auto* workers = dynamic_cast<const CrossWorkerInput*>(this);
  return workers != nullptr ? workers->input_context()
                            : InputContext(1, 0, impl_->replicas_in_sync);
}

InputTotals StrategyExtended::sum_over_workers(const InputTotals& here) {
  auto* workers = dynamic_cast<CrossWorkerInput*>(this);
  return workers != nullptr ? workers->sum_over_workers(here) : here;
}

std::vector<std::string> StrategyExtended::gather_from_workers(const std::string& here,
                                                               const std::string& what) {
  auto* workers = dynamic_cast<CrossWorkerInput*>(this);
  return workers != nullptr ? workers->gather_from_workers(here, what) : std::vector{here};
}

std::vector<int64_t> StrategyExtended::sum_numbers(const std::vector<int64_t>& here,
                                                   const std::string& what) {
  auto* workers = dynamic_cast<CrossWorkerInput*>(this);
  return workers != nullptr ? workers->sum_numbers(here, what) : here;
}

Tensor StrategyExtended::from_first_worker(const Tensor& value) {
  auto* workers = dynamic_cast<CrossWorkerInput*>(this);
  return workers != nullptr ? workers->from_first_worker(value) : value;
}

std::vector<std::string> CrossWorkerInput::gather_from_workers(const std::string& here,
                                                               const std::string&) {
  return {here};
}

std::vector<int64_t> CrossWorkerInput::sum_numbers(const std::vector<int64_t>& here,
                                                   const std::string&) {
  return here;
}

// ---- What it does

CrossDeviceOps& StrategyExtended::cross_device_ops() const {
  static ReductionToOneDevice on_first_destination;
  return on_first_destination;
}

DistributedValue StrategyExtended::reduce_to(ReduceOp op, const DistributedValue& value,
                                             const Destinations& destinations,
                                             const CommunicationOptions& options) {
  internal::require_cross_replica_or_default(strategy(), "reduce_to");
  const ReduceRequest request{value, destinations};
  return batch_reduce_to(op, {&request, 1}, options)[0];
}

std::vector<DistributedValue> StrategyExtended::batch_reduce_to(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  internal::require_cross_replica_or_default(strategy(), "batch_reduce_to");
  CrossDeviceOps& between = cross_device_ops();
  if (std::ranges::none_of(requests, internal::is_common, &ReduceRequest::value)) {
    return between.batch_reduce(op, requests, options);
  }
  std::vector<DistributedValue> results;
  for (const auto& [value, destinations] : requests) {
    auto common =
        internal::reduce_undistributed(op, value, destinations, between, impl_->replicas_in_sync);
    results.push_back(common ? *std::move(common)
                             : between.reduce(op, value, destinations, options));
  }
  return results;
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

ReplicaContext* internal::own_replica(const StrategyExtended& extended) {
  const Mode* mode = current_mode();
  const bool is_here = mode != nullptr && mode->strategy == Access::impl(extended)->strategy;
  return is_here ? mode->replica : nullptr;
}

DistributedValue internal::update_places(StrategyExtended& extended, const Destinations& where,
                                         const std::function<Tensor(size_t)>& change) {
  require_cross_replica_or_default(extended.strategy(), "update_non_slot");
  const EnterOrAssert inside(extended.strategy(), "update_non_slot");
  std::vector<Gradient> results;
  for (size_t k = 0; k < where.devices().size(); ++k) {
    const UpdateScope updating(k);
    const CopyDeviceScope there(where.devices()[k]);
    results.emplace_back(change(k));
  }
  return {DistributedValue::Kind::Mirrored, std::move(results)};
}

std::vector<std::string> StrategyExtended::non_slot_devices(
    const std::vector<Variable>& variables) const {
  for (const Variable& variable : variables) (void)internal::VariableAccess::impl(variable);
  return parameter_devices();
}

Tensor StrategyExtended::read_var(const Variable& variable) {
  const internal::ModeScope cross({&strategy(), nullptr});
  const internal::UpdateScope no_copy_alone(std::nullopt);
  return variable.read_value({});
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
  return made_by == (impl_->strategy == &internal::default_strategy() ? nullptr : impl_->strategy);
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
  internal::distributed(made)->share_order(impl_->threads.order());
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
