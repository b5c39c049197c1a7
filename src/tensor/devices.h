#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/device.h"

namespace cohort::internal {

// Where memory is: in the host's, or in that of a GPU.
struct Place {
  int8_t gpu = -1;  // the number of the GPU; -1 is the host

  bool is_host() const { return gpu < 0; }
  friend bool operator==(Place, Place) = default;
};

// A device of this process. Lives as long as the process, so a pointer to one identifies it.
struct Device {
  DeviceName name;
  std::string full_name;
  Place place = {};  // of its tensors
};

// How many GPUs this process has. Nearly all processes have none, so code that serves GPUs asks
// has_gpus() first, which is one load.
extern std::atomic<int> gpu_count;
inline bool has_gpus() { return gpu_count.load(std::memory_order_relaxed) > 0; }

// The device whose tensors are there, with the lowest number.
const Device& device_at(Place place);
// `device` if its memory is the host's, else CPU:0.
inline const Device& host_of(const Device& device) {
  return device.place.is_host() ? device : device_at({});
}

// The device that this thread's operations run on: CPU:0 outside all scopes. Throws
// InvalidArgument, listing the devices of this process, when the open scopes ask for another
// device.
const Device& current_device();
// The device of a value that this thread makes: the same, but CPU:0 when the scopes ask for a
// device that this process does not have. Only a graph can use such a device.
const Device& value_device();

// The device of that name, in any form. Throws InvalidArgument when this process has no such
// device.
const Device& find_device(std::string_view name);
// Throws InvalidArgument: this process does not have the device of that full name. `operation` and
// `written` are who asked, and for which name.
[[noreturn]] void raise_no_device(std::string_view operation, std::string_view written,
                                  std::string_view full_name);

// Whether the name leaves the job open or names that of a process without a cluster.
inline bool is_local(const DeviceName& name) {
  return name.job.value_or("localhost") == "localhost";
}

// Whether this process has a device of that full name. Parses nothing.
bool has_device(std::string_view full_name);

// Number of device scopes that are open in this thread.
size_t device_scope_depth();

// Makes CPU:0 to CPU:(count-1) exist; never removes a device.
void ensure_cpu_devices(int count);
// Makes GPU:0 to GPU:(count-1) exist as simulated GPUs, each with that much memory.
void ensure_gpu_devices(int count, int64_t memory_bytes);

// The device that the open device scopes of this thread ask for, for a node of a graph, by the walk
// that DeviceScope describes. Throws InvalidArgument when a function does not return a device name.
DeviceName requested_device(const std::string& node_name, std::string_view op);

// While it lives, operations of this thread run on that device. For runs of graphs it replaces a
// DeviceScope, which would look the name up.
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
