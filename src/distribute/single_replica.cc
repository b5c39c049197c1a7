#include "distribute/single_replica.h"

#include "distribute/context.h"

namespace cohort::internal {

DistributedValue SingleReplicaExtended::reduce_to(ReduceOp, const DistributedValue& value,
                                                  const Destinations&,
                                                  const CommunicationOptions&) {
  require_cross_replica_or_default(strategy(), "reduce_to");
  return value;
}

DistributedValue SingleReplicaExtended::gather_to(const DistributedValue& value,
                                                  const Destinations&, int,
                                                  const CommunicationOptions&) {
  require_cross_replica_or_default(strategy(), "gather_to");
  return value;
}

DistributedValue SingleReplicaExtended::update_copies(const Variable& variable,
                                                      const Change& change) {
  require_cross_replica_or_default(strategy(), "update");
  const EnterOrAssert inside(strategy(), "update");
  const UpdateScope updating(0);
  const DeviceScope there(variable.device());
  return DistributedValue(Gradient(change(variable, 0)));
}

std::vector<Gradient> SingleReplicaExtended::replica_all_reduce(ReplicaContext&, ReduceOp,
                                                                const std::vector<Gradient>& values,
                                                                const CommunicationOptions&) {
  return values;
}

}  // namespace cohort::internal
