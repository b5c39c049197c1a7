#pragma once

#include "distribute/distributed_variable.h"

namespace cohort::internal {

// Copies that go their own ways: each replica writes and reads its own. Outside of replicas the
// variable is what its aggregation makes of them, and there a write is shared out so that it reads
// back.
class SyncOnReadVariable : public DistributedVariable {
 public:
  SyncOnReadVariable(std::vector<Variable> copies, VariableOptions options)
      : DistributedVariable(std::move(copies), std::move(options)) {}

  // Throws Unimplemented in a replica inside a VariableSyncOnReadScope, where convert() gives the
  // value over all replicas.
  Tensor read() const override;
  Tensor convert() const override;
  // Outside of replicas the first copy of the first worker grows, where the sum over copies is what
  // counts.
  void accumulate(const Tensor& delta) override;
  // From a checkpoint, which each worker reads for itself: it is not compared.
  void restore(const Tensor& value) override;
  // Throws Unimplemented, wherever it is called.
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;

 protected:
  std::string_view kind() const override { return "SyncOnReadVariable"; }
  Tensor read_across() const override;
  // Throws InvalidArgument: what is read there is no copy's value.
  size_t copy_across() const override;
  Tensor write_across(Write how, const Tensor& value) override;
  Tensor write_across_parts(Write how, const std::vector<Tensor>& values) override;
  Tensor write_in_replica(ReplicaContext& replica, Write how, const WrittenValue& given) override;
  Tensor scatter_across(ScatterOp op, const IndexedSlices& slices) override;
  Tensor scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                            const IndexedSlices& slices) override;
  std::shared_ptr<DistributedVariable> like_this(std::vector<Variable> copies) const override;

 private:
  void require_aggregation(std::string_view what) const;
  void write_copies(Write how, const std::vector<Tensor>& values);
  bool sums() const { return options().aggregation == VariableAggregation::Sum; }
  // What copy `index` holds of a sum that is `value`.
  Tensor share_of(const Tensor& value, size_t index) const;
};

}  // namespace cohort::internal
