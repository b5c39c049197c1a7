#pragma once

#include <string>
#include <string_view>

#include "cohort/device.h"

namespace cohort::internal {

// A device of this process. Lives as long as the process, so a pointer to one identifies it.
struct Device {
  DeviceName name;
  std::string full_name;
};

// The device that this thread's operations run on: CPU:0 outside of every scope. Throws
// InvalidArgument, listing the devices there are, when the open scopes ask for another one.
const Device& current_device();
// The device that a value made by this thread belongs to: the same, but CPU:0 when the scopes ask
// for a device that this process does not have, where only a graph can go.
const Device& value_device();

// The device of that name, in any form. Throws InvalidArgument when this process has no such
// device.
const Device& find_device(std::string_view name);

// Whether this process has a device of that full name. Parses nothing.
bool has_device(std::string_view full_name);

// Number of device scopes that are open in this thread.
size_t device_scope_depth();

// Makes CPU:0 to CPU:(count-1) exist; never takes one away.
void ensure_cpu_devices(int count);

// What the open device scopes of this thread ask for, for a node of a graph: the walk that
// DeviceScope describes. Throws InvalidArgument when a function returns no device name.
DeviceName requested_device(const std::string& node_name, std::string_view op);

}  // namespace cohort::internal
