#include "base/raise.h"
#include "distribute/context.h"
#include "distribute/lone_process.h"
#include "distribute/single_replica.h"
#include "distribute/strategy_devices.h"
#include "distribute/variables.h"

namespace cohort {
namespace {

class OneDeviceExtended : public internal::SingleReplicaExtended {
 public:
  explicit OneDeviceExtended(std::string device) : device_(std::move(device)) {}

  std::string name() const override { return "OneDeviceStrategy"; }
  std::vector<std::string> worker_devices() const override { return {device_}; }
  std::string default_device() const override { return device_; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return internal::make_plain_variable(strategy(), device_, next, request);
  }
  DistributedValue broadcast_to(const Tensor& value, const Destinations&) override {
    internal::require_cross_replica_or_default(strategy(), "broadcast_to");
    return value;
  }
  std::unique_ptr<StrategyExtended> clone() const override {
    return std::make_unique<OneDeviceExtended>(device_);
  }

 private:
  const std::string device_;
};

std::unique_ptr<StrategyExtended> make_extended(std::string_view device) {
  constexpr std::string_view kName = "OneDeviceStrategy";
  std::string resolved = internal::resolve_devices(kName, {std::string(device)}).front();
  internal::warn_if_one_of_several(kName);
  return std::make_unique<OneDeviceExtended>(std::move(resolved));
}

}  // namespace

OneDeviceStrategy::OneDeviceStrategy(std::string_view device) : Strategy(make_extended(device)) {}

}  // namespace cohort
