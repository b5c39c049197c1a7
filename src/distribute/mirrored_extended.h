#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/strategy.h"
#include "distribute/parallel_all_reduce.h"

namespace cohort::internal {

// One replica on each device of this process, with a copy of every variable.
class MirroredExtended : public StrategyExtended {
 public:
  MirroredExtended(std::vector<std::string> devices, const MirroredOptions& options);

  std::string name() const override { return "MirroredStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  size_t num_local_replicas() const override { return devices_.size(); }
  StrategyTraits traits() const override {
    return {.shares_gradients = direct_.has_value(), .supports_replica_pipelines = true};
  }
  GuardOptions guards() const override { return options_.guards; }

  std::vector<DistributedValue> batch_reduce_to(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;
  std::vector<Gradient> replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                           const std::vector<Gradient>& values,
                                           const CommunicationOptions& options) override;
  std::unique_ptr<StrategyExtended> clone() const override;

 protected:
  CrossDeviceOps& cross_device_ops() const override { return *cross_device_ops_; }

 private:
  const std::vector<std::string> devices_;
  const MirroredOptions options_;
  const std::shared_ptr<CrossDeviceOps> cross_device_ops_;
  // Where the algorithm is the one between threads: its quick form for replicas that meet.
  std::optional<ParallelAllReduce> direct_;
};

}  // namespace cohort::internal
