#include <fmt/ranges.h>

#include "base/log.h"
#include "base/raise.h"
#include "distribute/context.h"
#include "distribute/lone_process.h"
#include "distribute/strategy_devices.h"
#include "distribute/undistributed.h"
#include "distribute/variables.h"

namespace cohort {
namespace {

constexpr const char* kHost = "CPU:0";

class CentralStorageExtended : public StrategyExtended {
 public:
  CentralStorageExtended(std::vector<std::string> compute_devices, std::string parameter_device)
      : compute_(std::move(compute_devices)),
        parameter_(std::move(parameter_device)),
        cross_device_ops_(canonical_device(kHost)) {}

  std::string name() const override { return "CentralStorageStrategy"; }
  std::vector<std::string> worker_devices() const override { return compute_; }
  std::vector<std::string> parameter_devices() const override { return {parameter_}; }
  size_t num_local_replicas() const override { return compute_.size(); }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return compute_.size() == 1
               ? internal::make_plain_variable(strategy(), parameter_, next, request)
               : internal::make_aggregating_variable(strategy(), parameter_, next, request);
  }

  DistributedValue reduce_to(ReduceOp op, const DistributedValue& value,
                             const Destinations& destinations,
                             const CommunicationOptions& options) override {
    internal::require_cross_replica_or_default(strategy(), "reduce_to");
    if (auto common = internal::reduce_undistributed(op, value, destinations, cross_device_ops_,
                                                     num_replicas_in_sync())) {
      return *std::move(common);
    }
    return cross_device_ops_.reduce(op, value, destinations, options);
  }

  DistributedValue broadcast_to(const Tensor& value, const Destinations& destinations) override {
    internal::require_cross_replica_or_default(strategy(), "broadcast_to");
    return internal::broadcast_value(value, destinations, cross_device_ops_);
  }

  DistributedValue gather_to(const DistributedValue& value, const Destinations& destinations,
                             int axis, const CommunicationOptions& options) override {
    internal::require_cross_replica_or_default(strategy(), "gather_to");
    if (value.kind() == DistributedValue::Kind::Plain) return value;
    return cross_device_ops_.gather(value, destinations, axis, options);
  }

  DistributedValue update_copies(const Variable& variable, const Change& change) override {
    internal::require_cross_replica_or_default(strategy(), "update");
    const internal::EnterOrAssert inside(strategy(), "update");
    return internal::change_copies(variable, change);
  }

  std::unique_ptr<StrategyExtended> clone() const override {
    return std::make_unique<CentralStorageExtended>(compute_, parameter_);
  }

 private:
  const std::vector<std::string> compute_;
  const std::string parameter_;
  ReductionToOneDevice cross_device_ops_;
};

std::unique_ptr<StrategyExtended> make_extended(const CentralStorageOptions& options) {
  constexpr std::string_view kName = "CentralStorageStrategy";
  std::vector<std::string> compute = internal::resolve_devices(kName, options.compute_devices);
  std::string parameter = options.parameter_device;
  if (parameter.empty()) parameter = compute.size() == 1 ? compute.front() : kHost;
  parameter = internal::resolve_devices(kName, {parameter}).front();
  internal::log_info("[CentralStorageStrategy] computes on {} and keeps variables on {}",
                     fmt::join(compute, ", "), parameter);
  internal::warn_if_one_of_several(kName);
  return std::make_unique<CentralStorageExtended>(std::move(compute), std::move(parameter));
}

}  // namespace

CentralStorageStrategy::CentralStorageStrategy(const CentralStorageOptions& options)
    : Strategy(make_extended(options)) {}

}  // namespace cohort
