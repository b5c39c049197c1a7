#pragma once

#include "base/thread_context.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// A variable with one copy. Reads and changes go to its handle, wherever the copy is.
class SingleVariable : public VariableImpl {
 public:
  const std::string& name() const override { return handle_.name; }
  const VariableOptions& options() const override { return options_; }
  bool trainable() const override { return trainable_; }
  const VariableHandle& handle() const override { return handle_; }
  Tensor read() const override;
  Tensor write(Write how, const Tensor& value) override;
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;

 protected:
  // The constructor of the subclass sets handle_.
  explicit SingleVariable(const VariableOptions& options);
  // The handle for a read or a change. Throws where the variable cannot be used.
  virtual const VariableHandle& usable_handle() const { return handle_; }

  const VariableOptions options_;
  const bool trainable_;
  VariableHandle handle_;
};

// The value of the request's initializer, cast to the requested dtype and checked against the
// requested shape. No tape records how the value is made.
Tensor initial_value(const VariableRequest& request);

// While it lives, this thread reads variables row by row, so caches are neither asked nor filled: a
// cache would hold the whole table.
class [[nodiscard]] RowReads : public ContextFlag<RowReads> {};

}  // namespace cohort::internal
