#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/device.h"
#include "cohort/strategy_extended.h"
#include "distribute/variables/write_order.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// Where this thread uses a variable of a strategy.
struct VariableUse {
  std::optional<size_t> copy;         // the copy that is meant; none across replicas
  ReplicaContext* replica = nullptr;  // set in a replica, except while it updates one copy
};

// What a write was given.
struct WrittenValue {
  Tensor value;
  bool is_number = false;  // the C++ type at the call was a number's
};

// A variable of which a strategy keeps copies. The subclasses (variable_kinds.h) say how the copies
// are written and read. A use where another strategy is current throws FailedPrecondition.
class DistributedVariable : public VariableImpl,
                            public std::enable_shared_from_this<DistributedVariable> {
 public:
  DistributedVariable(std::vector<Variable> copies, VariableOptions options);

  const std::vector<Variable>& copies() const { return copies_; }
  Strategy& owner() const { return *strategy; }
  // Throws FailedPrecondition, naming `what`, where another strategy is current.
  VariableUse use(std::string_view what) const;
  // This, as users hold it.
  Variable self() const;
  // The name, and a number that tells the variable from other variables of the same name: "'w'
  // (number 3)". Replicas and workers compare labels. With several workers the label has the number
  // that all workers gave to the variable, and none while they have not agreed on one. In a graph,
  // which outlives the restart of a worker, it has none either.
  std::string label() const;
  // Counts the variables in the order in which this process makes them.
  int64_t number_here() const { return number_here_; }
  // Sets a number that all workers gave to the variable. The number is valid while `*holds` is
  // true.
  void agree_on_number(int64_t number, std::shared_ptr<const std::atomic<bool>> holds);

  const std::string& name() const override;
  const VariableOptions& options() const override { return options_; }
  bool trainable() const override { return *options_.trainable; }
  const VariableHandle& handle() const override;
  const VariableHandle& first_copy() const override;
  std::string device() const override;
  bool is_initialized() const override;
  Tensor read() const override;
  Tensor convert() const override;
  Tensor write(Write how, const Tensor& value) override { return write_value(how, {value}); }
  Tensor write_number(Write how, const Tensor& number) override {
    return write_value(how, {number, true});
  }
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;
  Tensor value_across() const override { return read_across(); }
  void restore(const Tensor& value) override;
  std::shared_ptr<VariableImpl> deep_copy() const override;
  // "MirroredVariable:{\n  0: …,\n  1: …\n}"
  std::string to_string() const override;
  std::span<const Variable> parts() const override { return copies_; }

  // Writes a value that may have a part for each copy.
  Tensor write(Write how, const DistributedValue& value);

  // Held while all copies are written, so that after two writes all copies have the value of the
  // same one. All variables of a strategy share it.
  WriteOrder& writing_all() const { return *order_; }
  void share_order(std::shared_ptr<WriteOrder> order) { order_ = std::move(order); }

  // Whether copies may differ: some were written one by one since all were last set alike.
  virtual bool may_differ() const { return true; }
  virtual void note_own_write() {}

 protected:
  virtual std::string_view kind() const = 0;  // "MirroredVariable"
  // What read() and convert() give outside of replicas.
  virtual Tensor read_across() const { return copy(copy_across()).read(); }
  virtual Tensor convert_across() const { return copy(copy_across()).convert(); }
  // The copy that is read outside of replicas, and that a gradient there is for.
  virtual size_t copy_across() const { return 0; }
  // `values` has one value for each copy.
  virtual Tensor write_across(Write how, std::vector<Tensor> values) = 0;
  virtual Tensor write_in_replica(ReplicaContext& replica, Write how,
                                  const WrittenValue& given) = 0;
  // Kinds that replace scatter() need neither.
  virtual Tensor scatter_across(ScatterOp, const IndexedSlices&) { return {}; }
  virtual Tensor scatter_in_replica(ReplicaContext&, ScatterOp, const IndexedSlices&) { return {}; }
  // A variable of the same kind with other copies.
  virtual std::shared_ptr<DistributedVariable> like_this(std::vector<Variable> copies) const = 0;

  VariableImpl& copy(size_t index) const { return *VariableAccess::impl(copies_[index]); }
  // `values` after all workers have compared the first one; see guard_write_across().
  std::vector<Tensor> compared_with_workers(Write how, std::vector<Tensor> values) const;
  // Writes one copy, on its device.
  Tensor write_copy(size_t index, Write how, const Tensor& value) const;
  [[noreturn]] void refuse_parts(std::string_view reason) const;

 private:
  Tensor write_value(Write how, const WrittenValue& given);
  // All copies.
  Tensor write_everywhere(Write how, const Tensor& value) {
    return write_across(how, std::vector<Tensor>(copies_.size(), value));
  }
  // Throws InvalidArgument where the variable's rules want one value for all copies.
  void check_takes_parts(const VariableUse& use) const;
  friend Variable adopt_copies(Strategy& strategy, std::shared_ptr<DistributedVariable> variable);
  void take_over(Strategy& strategy);

  const std::vector<Variable> copies_;
  const VariableOptions options_;  // as they are in effect: no Auto, trainable decided
  std::shared_ptr<WriteOrder> order_ = std::make_shared<WriteOrder>();
  const int64_t number_here_;
  int64_t agreed_number_ = 0;
  std::shared_ptr<const std::atomic<bool>> agreement_holds_ = nullptr;
};

// Gives the variable and its copies to the strategy.
Variable adopt_copies(Strategy& strategy, std::shared_ptr<DistributedVariable> variable);

// The implementation of a variable of which a strategy keeps copies; null for others.
std::shared_ptr<DistributedVariable> distributed(const Variable& variable);

// The copies in this process, in the order of their devices; an ordinary variable itself.
std::vector<Variable> copies_of(const Variable& variable);
// The value of a copy, whatever the context. Tapes do not record the read.
Tensor read_copy(const Variable& copy);
// The variable that `copy` is a copy of, or `copy` itself.
Variable container_of(const Variable& copy);
// Whether the strategy promises that all copies are equal.
bool is_mirrored(const Variable& variable);

// Calls `change(copy, k)` for each copy, on its device and in update context k.
DistributedValue change_copies(const Variable& variable, const StrategyExtended::Change& change);

// While it lives, this thread's operations belong to the device of a copy. Operations that run at
// once stay where they are when another task has the copy: only nodes of a graph go there.
class [[nodiscard]] CopyDeviceScope {
 public:
  explicit CopyDeviceScope(const std::string& device);

 private:
  std::optional<DeviceScope> scope_;
};

// Held while code outside replicas writes all copies one by one. It is not locked if the variable
// has no copies, while a graph is built, and where the thread is inside such a write.
WritersTurn turn_to_write(const Variable& variable);

// The variable's label, or its name in quotes where no strategy keeps copies of it.
std::string label_of(const Variable& variable);
// The labels of a list. Variables with equal labels get numbers in the order in which they were
// made, which is the same on all workers: "'w'", "'w' (made 1 later)".
std::vector<std::string> labels_of(const std::vector<Variable>& variables);

// "assign_add"
std::string_view name_of(Write how);
// "scatter_add"
std::string_view name_of(ScatterOp op);

}  // namespace cohort::internal
