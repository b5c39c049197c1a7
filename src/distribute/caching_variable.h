#pragma once

#include "ops/variable_cell.h"

namespace cohort::internal {

// A variable that is far away: inside a CacheVariableReadsScope the first read is kept nearby and
// serves the later ones. Writes go to the variable itself, and so do reads of rows.
class CachingVariable : public VariableImpl {
 public:
  explicit CachingVariable(const Variable& far);

  const Variable& far() const { return far_; }
  const std::string& name() const override { return impl().name(); }
  const VariableOptions& options() const override { return impl().options(); }
  bool trainable() const override { return impl().trainable(); }
  const VariableHandle& handle() const override { return impl().handle(); }
  const VariableHandle& first_copy() const override { return impl().first_copy(); }
  std::string device() const override { return impl().device(); }
  bool is_initialized() const override { return impl().is_initialized(); }
  Tensor read() const override;
  Tensor assign(const Tensor& value) override { return impl().assign(value); }
  Tensor assign_add(const Tensor& delta) override { return impl().assign_add(delta); }
  Tensor assign_sub(const Tensor& delta) override { return impl().assign_sub(delta); }
  Tensor write_number(Write how, const Tensor& number) override {
    return impl().write_number(how, number);
  }
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override {
    return impl().scatter(op, slices);
  }
  // Never from the cache.
  Tensor value_across() const override { return impl().value_across(); }
  void restore(const Tensor& value) override { impl().restore(value); }
  std::shared_ptr<VariableImpl> deep_copy() const override;
  std::string to_string() const override { return impl().to_string(); }

 private:
  VariableImpl& impl() const { return *VariableAccess::impl(far_); }

  const Variable far_;
};

}  // namespace cohort::internal
