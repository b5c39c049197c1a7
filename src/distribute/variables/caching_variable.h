#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "cohort/variable_scopes.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

class GraphBuilder;

// Whether a VariableSyncOnReadScope is open in this thread.
bool syncs_on_read();

// The values that were read inside one CacheVariableReadsScope. Thread-safe.
class ReadCache {
 public:
  // The result of the first call for this variable, and this graph if one is being built.
  Tensor get(const std::shared_ptr<VariableImpl>& variable, const std::function<Tensor()>& read);

 private:
  // The cache keeps its variables alive: a new variable at the address of an old one would get the
  // value of the old one.
  using Key = std::pair<std::shared_ptr<VariableImpl>, const GraphBuilder*>;

  std::mutex mutex_;
  std::map<Key, Tensor> values_;  // guarded by mutex_
};

// The cache that this thread uses now, if any.
std::shared_ptr<ReadCache> read_cache();

// A variable on another task: inside a CacheVariableReadsScope the first read is kept nearby and
// serves the later reads. Writes go to the variable itself, and so do reads of rows.
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
