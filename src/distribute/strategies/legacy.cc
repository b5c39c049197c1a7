#include "cohort/legacy.h"

namespace cohort::legacy {

std::optional<TowerContext> get_tower_context() {
  ReplicaContext* context = get_replica_context();
  return context != nullptr ? std::optional<TowerContext>(*context) : std::nullopt;
}

Tensor group(const std::vector<Tensor>& values) { return cohort::group(values); }

}  // namespace cohort::legacy
