#pragma once

#include <atomic>

#include "distribute/distributed_variable.h"

namespace cohort::internal {

// Copies that are kept equal: a write outside of replicas goes to all of them; what replicas write
// is made one by the variable's aggregation first. With aggregation None each replica writes its
// own copy alone, and they may come to differ.
class MirroredVariable : public DistributedVariable {
 public:
  MirroredVariable(std::vector<Variable> copies, VariableOptions options)
      : DistributedVariable(std::move(copies), std::move(options)) {}

  bool may_differ() const override;
  void note_own_write() override;
  // From a checkpoint, which all workers read: it is not compared.
  void restore(const Tensor& value) override;
  // The value of each copy.
  DistributedValue parts() const;

 protected:
  std::string_view kind() const override { return "MirroredVariable"; }
  Tensor read_across() const override { return copy(copy_across()).read(); }
  // The copy on the current device, else the first.
  size_t copy_across() const override;
  Tensor write_across(Write how, const Tensor& value) override;
  Tensor write_across_parts(Write how, const std::vector<Tensor>& values) override;
  Tensor write_in_replica(ReplicaContext& replica, Write how, const WrittenValue& given) override;
  Tensor scatter_across(ScatterOp op, const IndexedSlices& slices) override;
  Tensor scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                            const IndexedSlices& slices) override;
  std::shared_ptr<DistributedVariable> like_this(std::vector<Variable> copies) const override;

 private:
  // In this writer's turn.
  Tensor write_all(Write how, const std::vector<Tensor>& values);
  // Before the replica writes its copy alone.
  void note_lone_write(const ReplicaContext& replica, std::string_view what);

  std::atomic<bool> differs_ = false;
  std::atomic<bool> is_traced_to_differ_ = false;  // by a function that may run at any time
  std::atomic<bool> warned_ = false;
};

}  // namespace cohort::internal
