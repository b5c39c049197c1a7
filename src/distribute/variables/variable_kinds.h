#pragma once

#include <atomic>
#include <memory>

#include "distribute/variables/distributed_variable.h"

// The kinds of variables that strategies make.
namespace cohort::internal {

template <typename Kind>
class DistributedVariableOf : public DistributedVariable {
 public:
  using DistributedVariable::DistributedVariable;

 protected:
  std::shared_ptr<DistributedVariable> like_this(std::vector<Variable> copies) const override {
    return std::make_shared<Kind>(std::move(copies), options());
  }
};

// Copies that are kept equal. A write outside replicas goes to all copies. What replicas write is
// first combined by the variable's aggregation. With aggregation None each replica writes its own
// copy alone, and the copies may come to differ.
class MirroredVariable : public DistributedVariableOf<MirroredVariable> {
 public:
  using DistributedVariableOf::DistributedVariableOf;

  bool may_differ() const override;
  void note_own_write() override;
  // Sets the value from a checkpoint. All workers read the same checkpoint, so they do not compare
  // the value.
  void restore(const Tensor& value) override;
  // The value of each copy.
  DistributedValue copy_values() const;

 protected:
  std::string_view kind() const override { return "MirroredVariable"; }
  // The copy on the current device, or else the first copy.
  size_t copy_across() const override;
  Tensor write_across(Write how, std::vector<Tensor> values) override;
  Tensor write_in_replica(ReplicaContext& replica, Write how, const WrittenValue& given) override;
  Tensor scatter_across(ScatterOp op, const IndexedSlices& slices) override;
  Tensor scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                            const IndexedSlices& slices) override;

 private:
  // The caller must have the turn to write.
  Tensor write_all(Write how, const std::vector<Tensor>& values);
  // In each replica: combines the values of all replicas by aggregate(), then changes the copy of
  // this replica. Without an aggregation it changes the copy by `given` alone.
  template <typename Given, typename Aggregate, typename Change>
  Tensor change_in_replica(ReplicaContext& replica, std::string_view what, const Given& given,
                           const Aggregate& aggregate, const Change& change);
  // A replica calls this before it writes its copy alone.
  void note_lone_write(const ReplicaContext& replica, std::string_view what);

  std::atomic<bool> differs_ = false;
  std::atomic<bool> is_traced_to_differ_ = false;  // by a function that may run at any time
  std::atomic<bool> warned_ = false;
};

// Each replica writes and reads its own copy. Outside replicas a read aggregates the copies, and a
// write sets them so that a read gives the value back.
class SyncOnReadVariable : public DistributedVariableOf<SyncOnReadVariable> {
 public:
  using DistributedVariableOf::DistributedVariableOf;

  // Throws Unimplemented in a replica inside a VariableSyncOnReadScope, where convert() gives the
  // value over all replicas.
  Tensor read() const override;
  Tensor convert() const override;
  // Adds `delta`. Outside replicas, if the copies are summed, it adds `delta` to the first copy of
  // the first worker only.
  void accumulate(const Tensor& delta) override;
  // Sets the value from a checkpoint. Each worker reads the checkpoint itself, so the workers do
  // not compare the value.
  void restore(const Tensor& value) override;
  // Sets each copy on this worker to a value of its own.
  void restore_copies(const std::vector<Tensor>& values);
  // Throws Unimplemented, wherever it is called.
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;

 protected:
  std::string_view kind() const override { return "SyncOnReadVariable"; }
  Tensor read_across() const override;
  Tensor convert_across() const override;
  // Throws InvalidArgument: outside replicas the value is not that of one copy.
  size_t copy_across() const override;
  Tensor write_across(Write how, std::vector<Tensor> values) override;
  Tensor write_in_replica(ReplicaContext& replica, Write how, const WrittenValue& given) override;

 private:
  void require_aggregation(std::string_view what) const;
  // The value over all replicas. `read` reads one copy.
  Tensor combine_copies(const std::function<Tensor(const Variable&)>& read) const;
  Tensor combine(const std::vector<Tensor>& values) const;
  void write_copies(Write how, const std::vector<Tensor>& values);
  bool sums() const { return options().aggregation == VariableAggregation::Sum; }
  // The value of copy `index` when the sum of all copies is `value`.
  Tensor share_of(const Tensor& value, size_t index) const;
};

// One copy that all replicas share. The values that replicas write are combined by the variable's
// aggregation and then written once.
class AggregatingVariable : public DistributedVariableOf<AggregatingVariable> {
 public:
  using DistributedVariableOf::DistributedVariableOf;

 protected:
  std::string_view kind() const override { return "AggregatingVariable"; }
  Tensor write_across(Write how, std::vector<Tensor> values) override {
    return write_copy(0, how, values[0]);
  }
  // Throws InvalidArgument for aggregation None.
  Tensor write_in_replica(ReplicaContext& replica, Write how, const WrittenValue& given) override;
  Tensor scatter_across(ScatterOp op, const IndexedSlices& slices) override;
  Tensor scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                            const IndexedSlices& slices) override;

 private:
  void require_aggregation(std::string_view what) const;
};

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
  Tensor write(Write how, const Tensor& value) override { return impl().write(how, value); }
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
