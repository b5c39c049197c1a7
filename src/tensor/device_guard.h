#pragma once

#include <cstdint>

#include "tensor/devices.h"

namespace cohort::internal {

// While it lives, operations of this thread run on that device: a DeviceScope that looks nothing
// up, for those who run graphs.
class [[nodiscard]] DeviceGuard {
 public:
  explicit DeviceGuard(const Device& device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const uint64_t ticket_;
};

}  // namespace cohort::internal
