#include <fmt/ranges.h>

#include "base/log.h"
#include "distribute/contexts/context.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/variable_creation.h"

namespace cohort {
namespace {

constexpr const char* kHost = "CPU:0";

class CentralStorageExtended : public StrategyExtended, public CloneableStrategy {
 public:
  CentralStorageExtended(std::vector<std::string> compute_devices, std::string parameter_device)
      : compute_(std::move(compute_devices)),
        parameter_(std::move(parameter_device)),
        on_host_(canonical_device(kHost)) {}

  std::string name() const override { return "CentralStorageStrategy"; }
  std::vector<std::string> worker_devices() const override { return compute_; }
  std::vector<std::string> parameter_devices() const override { return {parameter_}; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return compute_.size() == 1
               ? internal::make_plain_variable(strategy(), parameter_, next, request)
               : internal::make_aggregating_variable(strategy(), parameter_, next, request);
  }

  DistributedValue update_copies(const Variable& variable, const Change& change) override {
    internal::require_cross_replica_or_default(strategy(), "update");
    const internal::EnterOrAssert inside(strategy(), "update");
    return internal::change_copies(variable, change);
  }

  std::unique_ptr<StrategyExtended> clone() const override {
    return std::make_unique<CentralStorageExtended>(compute_, parameter_);
  }

 protected:
  CrossDeviceOps& cross_device_ops() const override { return on_host_; }

 private:
  const std::vector<std::string> compute_;
  const std::string parameter_;
  mutable ReductionToOneDevice on_host_;
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
