#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/device.h"
#include "cohort/strategy.h"
#include "cohort/variable.h"

namespace cohort::internal {

// The copies in this process, in the order of their devices; an ordinary variable itself.
std::vector<Variable> copies_of(const Variable& variable);
// The value of a copy, whatever the context. Tapes do not record the read.
Tensor read_copy(const Variable& copy);
// The variable that `copy` is a copy of, or `copy` itself.
Variable container_of(const Variable& copy);
// Whether the strategy promises that all copies are equal.
bool is_mirrored(const Variable& variable);

// Calls `change(copy, k)` for each copy, on its device and in update context k.
DistributedValue change_copies(const Variable& variable, const StrategyExtended::Change& change);

// While it lives, this thread's operations belong to the device of a copy. Operations that run at
// once stay where they are when another task has the copy: only nodes of a graph go there.
class [[nodiscard]] CopyDeviceScope {
 public:
  explicit CopyDeviceScope(const std::string& device);

 private:
  std::optional<DeviceScope> scope_;
};

}  // namespace cohort::internal
