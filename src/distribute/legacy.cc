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

}  // namespace cohort::legacy
