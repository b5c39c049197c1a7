#pragma once

#include "cohort/device.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// What stands in this process for a variable on a parameter server: where it is and what it is
// called there. It never has a value; functions that use it run elsewhere.
class RemoteCell : public VariableCell {
 public:
  RemoteCell(std::string name, DeviceName device)
      : VariableCell(std::move(name)), device_(std::move(device)) {}

  const DeviceName& device() const { return device_; }

 private:
  const DeviceName device_;
};

}  // namespace cohort::internal
