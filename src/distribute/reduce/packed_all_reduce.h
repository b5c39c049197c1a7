#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cohort/cross_device_ops.h"

namespace cohort::internal {

// One tensor per device.
using DeviceTensors = std::vector<Tensor>;
// Reduces each of several tensors over the devices; every device gets the results.
using AllReduceTensors = std::function<std::vector<DeviceTensors>(
    const std::vector<DeviceTensors>& tensors, const std::vector<std::string>& devices)>;

// The common part of the algorithms that work on all devices of an all-reduce at the same time.
// Requests whose values are on the devices of their destinations go to `all_reduce`. Requests for
// the same devices go together, packed into `num_packs` vectors (0: each tensor by itself). The
// other requests are reduced on one device.
struct PackedAllReduce {
  int num_packs;
  AllReduceTensors all_reduce;
  // Whether `all_reduce` can work on these devices.
  std::function<bool(const std::vector<std::string>& devices)> takes;

  // As CrossDeviceOps::reduce_dense.
  std::vector<std::vector<Tensor>> run(ReduceOp op, std::span<const ReduceRequest> requests,
                                       const CommunicationOptions& options) const;
};

// Throws InvalidArgument for a negative number.
int checked_num_packs(int num_packs, const char* algorithm);

}  // namespace cohort::internal
