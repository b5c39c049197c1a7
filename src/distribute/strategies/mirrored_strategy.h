#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/strategy_extended.h"

namespace cohort::internal {

// One replica on each device of this process, with a copy of every variable.
class MirroredExtended : public StrategyExtended, public CloneableStrategy {
 public:
  MirroredExtended(std::vector<std::string> devices, const MirroredOptions& options);

  std::string name() const override { return "MirroredStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  StrategyTraits traits() const override;
  std::unique_ptr<StrategyExtended> clone() const override;

 protected:
  CrossDeviceOps& cross_device_ops() const override { return *cross_device_ops_; }

 private:
  const std::vector<std::string> devices_;
  const MirroredOptions options_;
  const std::shared_ptr<CrossDeviceOps> cross_device_ops_;
};

}  // namespace cohort::internal
