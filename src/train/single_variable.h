#pragma once

#include "ops/variable_cell.h"

namespace cohort::internal {

// A variable with one copy, wherever that is: reads and changes go to its handle.
class SingleVariable : public VariableImpl {
 public:
  const std::string& name() const override { return handle_.name; }
  const VariableOptions& options() const override { return options_; }
  bool trainable() const override { return trainable_; }
  const VariableHandle& handle() const override { return handle_; }
  Tensor read() const override;
  Tensor assign(const Tensor& value) override;
  Tensor assign_add(const Tensor& delta) override;
  Tensor assign_sub(const Tensor& delta) override;
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;

 protected:
  // The subclass sets handle_ before anybody else sees the variable.
  explicit SingleVariable(const VariableOptions& options);

  const VariableOptions options_;
  const bool trainable_;
  VariableHandle handle_;
};

// The value that `request` asks for: the initializer's, in the asked-for dtype, checked against the
// asked-for shape. Nothing of its making is recorded on a tape.
Tensor initial_value(const VariableRequest& request);

}  // namespace cohort::internal
