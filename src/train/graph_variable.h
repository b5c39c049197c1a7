#pragma once

#include "ops/variable_cell.h"

namespace cohort::internal {

// A variable that is a node of a graph.
class GraphVariable : public VariableImpl {
 public:
  // Adds the handle, and an assignment of the initial value placed with it.
  explicit GraphVariable(const VariableRequest& request);

  const std::string& name() const override { return handle_.name; }
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

  const Tensor& initializer() const { return initializer_; }

 private:
  const VariableOptions options_;
  const bool trainable_;
  VariableHandle handle_;
  Tensor initializer_;
};

}  // namespace cohort::internal
