#pragma once

#include "train/single_variable.h"

namespace cohort::internal {

// A variable of which each worker has one of its own. Only functions that workers run use it;
// elsewhere every use throws FailedPrecondition.
class WorkerVariable : public SingleVariable {
 public:
  WorkerVariable(const std::string& name, const Tensor& initial_value);

  std::string device() const override { return "/job:worker"; }
  bool is_initialized() const override { return true; }
  Tensor read() const override;
  Tensor assign(const Tensor& value) override;
  Tensor assign_add(const Tensor& delta) override;
  Tensor assign_sub(const Tensor& delta) override;
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;
  std::shared_ptr<VariableImpl> deep_copy() const override;
  std::string to_string() const override;

 private:
  // Throws unless a function is traced.
  void check_place() const;
};

}  // namespace cohort::internal
