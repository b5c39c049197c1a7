// What a reduction is asked for: the operation, how to communicate, and where results go.

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/raise.h"
#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "cohort/values.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

using internal::raise;

struct NamedOp {
  ReduceOp op;
  std::string_view name;
};
constexpr std::array kNames{NamedOp{ReduceOp::Sum, "Sum"}, NamedOp{ReduceOp::Mean, "Mean"},
                            NamedOp{ReduceOp::Min, "Min"}, NamedOp{ReduceOp::Max, "Max"},
                            NamedOp{ReduceOp::Product, "Product"}};

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// The full name; its missing parts are those of the current device scope.
std::string resolve(std::string_view device) {
  return canonical_device(device, internal::value_device().full_name);
}

}  // namespace

std::string to_string(ReduceOp op) {
  for (const NamedOp& entry : kNames) {
    if (entry.op == op) return std::string(entry.name);
  }
  raise(Code::InvalidArgument, "[ReduceOp] there is no reduction {}", static_cast<int>(op));
}

ReduceOp parse_reduce_op(std::string_view name) {
  for (const NamedOp& entry : kNames) {
    if (equal_in_any_case(entry.name, name)) return entry.op;
  }
  raise(Code::InvalidArgument,
        "[ReduceOp] there is no reduction '{}'; there are sum, mean, min, max and product", name);
}

ReduceOp reduce_op_of(VariableAggregation aggregation) {
  if (aggregation == VariableAggregation::Sum) return ReduceOp::Sum;
  if (aggregation == VariableAggregation::Mean) return ReduceOp::Mean;
  raise(Code::InvalidArgument, "[ReduceOp] aggregation {} is no reduction; Sum and Mean are",
        aggregation == VariableAggregation::None ? "None" : "OnlyFirstReplica");
}

CommunicationImplementation parse_communication_implementation(std::string_view name) {
  if (equal_in_any_case(name, "auto")) return CommunicationImplementation::Auto;
  if (equal_in_any_case(name, "ring")) return CommunicationImplementation::Ring;
  if (equal_in_any_case(name, "nccl")) return CommunicationImplementation::Nccl;
  raise(Code::InvalidArgument,
        "[CommunicationOptions] there is no implementation '{}'; there are auto, ring and nccl",
        name);
}

void check(const CommunicationOptions& options) {
  if (options.bytes_per_pack < 0) {
    raise(Code::InvalidArgument,
          "[CommunicationOptions] bytes_per_pack must be 0 (one pack) or more, got {}",
          options.bytes_per_pack);
  }
  if (options.timeout_seconds &&
      (!std::isfinite(*options.timeout_seconds) || *options.timeout_seconds < 0)) {
    raise(Code::InvalidArgument,
          "[CommunicationOptions] timeout_seconds must be 0 (for ever) or a positive number, got "
          "{}",
          *options.timeout_seconds);
  }
  const auto implementation = static_cast<int>(options.implementation);
  if (implementation < 0 || implementation > static_cast<int>(CommunicationImplementation::Nccl)) {
    raise(Code::InvalidArgument,
          "[CommunicationOptions] implementation must be Auto, Ring or Nccl, got number {}",
          implementation);
  }
}

CommunicationOptions CommunicationOptions::merged_with(const CommunicationOptions& other) const {
  CommunicationOptions merged = *this;
  if (other.bytes_per_pack != 0) merged.bytes_per_pack = other.bytes_per_pack;
  if (other.timeout_seconds) merged.timeout_seconds = other.timeout_seconds;
  if (other.implementation != CommunicationImplementation::Auto) {
    merged.implementation = other.implementation;
  }
  return merged;
}

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
