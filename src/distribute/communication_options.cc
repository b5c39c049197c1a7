#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/raise.h"
#include "cohort/cross_device_ops.h"

namespace cohort {

using internal::raise;

CommunicationImplementation parse_communication_implementation(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (lower == "auto") return CommunicationImplementation::Auto;
  if (lower == "ring") return CommunicationImplementation::Ring;
  if (lower == "nccl") return CommunicationImplementation::Nccl;
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

}  // namespace cohort
