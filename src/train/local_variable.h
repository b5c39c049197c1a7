#pragma once

#include "ops/variable_cell.h"

namespace cohort::internal {

// A variable without a strategy: one copy, on the device where it was made.
class LocalVariable : public VariableImpl {
 public:
  explicit LocalVariable(const VariableRequest& request);

  const std::string& name() const override { return options_.name; }
  const VariableOptions& options() const override { return options_; }
  bool trainable() const override { return trainable_; }
  const VariableHandle& handle() const override { return handle_; }
  std::string device() const override;
  Tensor read() const override;
  Tensor assign(const Tensor& value) override;
  Tensor assign_add(const Tensor& delta) override;
  Tensor assign_sub(const Tensor& delta) override;
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;
  std::string to_string() const override;

 private:
  const VariableOptions options_;
  const bool trainable_;
  const VariableHandle handle_;
};

// What is asked for, or else whether a variable of that kind trains.
bool is_trainable(const VariableOptions& options);

// The value that `request` asks for: the initializer's, in the asked-for dtype, checked against the
// asked-for shape. Nothing of its making is recorded on a tape.
Tensor initial_value(const VariableRequest& request);

}  // namespace cohort::internal
