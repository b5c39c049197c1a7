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

// What algorithms have in common that work on all devices of an all-reduce at the same time. The
// requests whose values stay on their devices go to `all_reduce`, those of equal devices together,
// packed into `num_packs` vectors (0: each tensor by itself). The others are reduced on one device.
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
