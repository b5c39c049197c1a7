#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/strategy.h"
#include "distribute/variables/distributed_variable.h"

// What the tests of variables under strategies share.
namespace cohort {

inline std::vector<std::string> cpu_devices(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("CPU:" + std::to_string(i));
  return names;
}

inline std::unique_ptr<Strategy> mirrored_strategy(int replicas,
                                                   const MirroredOptions& options = {}) {
  return std::make_unique<MirroredStrategy>(cpu_devices(replicas), options);
}

inline std::unique_ptr<Strategy> central_strategy(int replicas) {
  return std::make_unique<CentralStorageStrategy>(
      CentralStorageOptions{.compute_devices = cpu_devices(replicas)});
}

// The value of each copy.
inline std::vector<float> copy_values(const Variable& variable) {
  const auto whole = internal::distributed(variable);
  if (whole == nullptr) return {variable.read_value().to<float>()};
  std::vector<float> values;
  for (const Variable& copy : whole->copies()) values.push_back(copy.read_value().to<float>());
  return values;
}

}  // namespace cohort
