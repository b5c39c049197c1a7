#include "base/raise.h"
#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "tensor/devices.h"

namespace cohort {

using internal::raise;

namespace {

// The full name; what is missing is as in the current device scope.
std::string resolve(std::string_view device) {
  return canonical_device(device, internal::value_device().full_name);
}

}  // namespace

Destinations::Destinations(std::string_view device) {
  if (device.empty()) {
    raise(Code::InvalidArgument,
          "[Destinations] a device's name is empty; give a device, a tensor, a variable or a "
          "distributed value");
  }
  devices_ = {resolve(device)};
}

Destinations::Destinations(const Tensor& tensor) : Destinations(DistributedValue(tensor)) {}

Destinations::Destinations(const Variable& variable) : Destinations(DistributedValue(variable)) {}

Destinations::Destinations(const DistributedValue& value)
    : Destinations(of_devices(value.devices())) {}

Destinations Destinations::of_devices(std::vector<std::string> devices) {
  if (devices.empty()) {
    raise(Code::InvalidArgument, "[Destinations] there is no device that a result could go to");
  }
  Destinations made(std::string_view("CPU:0"));
  for (std::string& device : devices) device = resolve(device);
  made.devices_ = std::move(devices);
  return made;
}

}  // namespace cohort
