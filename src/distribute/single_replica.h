#pragma once

#include "cohort/strategy.h"

namespace cohort::internal {

// What strategies with one replica by nature share: values are never distributed, and reductions
// return what they get.
class SingleReplicaExtended : public StrategyExtended {
 public:
  size_t num_local_replicas() const override { return 1; }
  int num_replicas_in_sync() const override { return 1; }
  StrategyTraits traits() const override { return {.is_single = true}; }

  DistributedValue reduce_to(ReduceOp op, const DistributedValue& value,
                             const Destinations& destinations,
                             const CommunicationOptions& options) override;
  DistributedValue gather_to(const DistributedValue& value, const Destinations& destinations,
                             int axis, const CommunicationOptions& options) override;
  DistributedValue update_copies(const Variable& variable, const Change& change) override;
  std::vector<Gradient> replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                           const std::vector<Gradient>& values,
                                           const CommunicationOptions& options) override;
};

}  // namespace cohort::internal
