#pragma once

#include "train/single_variable.h"

namespace cohort::internal {

// A variable without a strategy: one copy, on the device where it was made.
class LocalVariable : public SingleVariable {
 public:
  explicit LocalVariable(const VariableRequest& request);

  std::string device() const override;
  bool is_initialized() const override;
  std::shared_ptr<VariableImpl> deep_copy() const override;
  std::string to_string() const override;
};

}  // namespace cohort::internal
