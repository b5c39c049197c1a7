#include "cohort/legacy.h"

#include "base/raise.h"

namespace cohort::legacy {

std::shared_ptr<CrossDeviceOps> all_reduce_cross_device_ops(std::string_view algorithm,
                                                            int num_packs) {
  if (algorithm == "nccl") return std::make_shared<NcclAllReduce>(num_packs);
  if (algorithm == "hierarchical_copy") {
    return std::make_shared<HierarchicalCopyAllReduce>(num_packs);
  }
  internal::raise(Code::InvalidArgument,
                  "[AllReduceCrossDeviceOps] there is no algorithm '{}'; there are nccl and "
                  "hierarchical_copy",
                  algorithm);
}

void check_replication_mode(InputReplicationMode mode) {
  if (mode == InputReplicationMode::PerWorker) return;
  internal::raise(Code::InvalidArgument,
                  "[make_dataset_iterator] iterators of old have one pipeline for all towers; "
                  "PerReplica is for Strategy::distribute_datasets_from_function");
}

void MultiStepContext::set_last_step_output(const std::string& name, const DistributedValue& value,
                                            std::optional<ReduceOp> op) {
  if (in_cross_replica_context()) {
    outputs_.insert_or_assign(name, op ? DistributedValue(strategy_.reduce(*op, value)) : value);
    return;
  }
  if (!op) {
    internal::raise(Code::InvalidArgument,
                    "[set_last_step_output] '{}' is set inside a replica, so it needs a ReduceOp "
                    "that makes one value of all replicas'",
                    name);
  }
  get_replica_context()->merge_call(
      [&](Strategy& strategy, const PerReplica<Tensor>& all) {
        outputs_.insert_or_assign(name, DistributedValue(strategy.reduce(*op, all)));
      },
      value.value().dense());
}

}  // namespace cohort::legacy
