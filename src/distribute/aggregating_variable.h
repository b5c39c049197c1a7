#pragma once

#include "distribute/distributed_variable.h"

namespace cohort::internal {

// One copy that all replicas share. What they write is made one by the variable's aggregation, and
// then written once.
class AggregatingVariable : public DistributedVariable {
 public:
  AggregatingVariable(std::vector<Variable> copies, VariableOptions options)
      : DistributedVariable(std::move(copies), std::move(options)) {}

 protected:
  std::string_view kind() const override { return "AggregatingVariable"; }
  Tensor read_across() const override { return copy(0).read(); }
  Tensor write_across(Write how, const Tensor& value) override { return write_copy(0, how, value); }
  Tensor write_across_parts(Write how, const std::vector<Tensor>& values) override {
    return write_copy(0, how, values[0]);
  }
  // Throws InvalidArgument for aggregation None.
  Tensor write_in_replica(ReplicaContext& replica, Write how, const WrittenValue& given) override;
  Tensor scatter_across(ScatterOp op, const IndexedSlices& slices) override;
  Tensor scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                            const IndexedSlices& slices) override;
  std::shared_ptr<DistributedVariable> like_this(std::vector<Variable> copies) const override;

 private:
  void require_aggregation(std::string_view what) const;
};

}  // namespace cohort::internal
