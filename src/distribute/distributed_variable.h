#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/strategy.h"
#include "distribute/write_order.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// Where this thread uses a variable of a strategy.
struct VariableUse {
  std::optional<size_t> copy;         // the copy that is meant; none across replicas
  ReplicaContext* replica = nullptr;  // set inside of a replica, but not while it updates one copy
};

// What a write was given.
struct WrittenValue {
  Tensor value;
  bool is_number = false;  // the C++ type at the call was a number's
};

// A variable of which a strategy keeps copies. The subclasses say how they are written and read;
// what they have in common is here. Using one where another strategy is current throws
// FailedPrecondition.
class DistributedVariable : public VariableImpl,
                            public std::enable_shared_from_this<DistributedVariable> {
 public:
  const std::vector<Variable>& copies() const { return copies_; }
  Strategy& owner() const { return *strategy; }
  // Throws FailedPrecondition, naming `what`, where another strategy is current.
  VariableUse use(std::string_view what) const;
  // This, as users hold it.
  Variable self() const;
  // Its name, and what tells it apart from others of that name: "'w' (number 3)". Members of the
  // strategy compare it. On several workers the number is there while all know that they gave it to
  // the same variable; not in a graph, which goes on when a worker is started again.
  std::string label() const;
  // In the order in which this process makes them.
  int64_t number_here() const { return number_here_; }
  // On several workers: a number that all of them gave to the variable. It holds while `*holds`.
  void agree_on_number(int64_t number, std::shared_ptr<const std::atomic<bool>> holds);

  const std::string& name() const override;
  const VariableOptions& options() const override { return options_; }
  bool trainable() const override { return *options_.trainable; }
  const VariableHandle& handle() const override;
  const VariableHandle& first_copy() const override;
  std::string device() const override;
  bool is_initialized() const override;
  Tensor read() const override;
  Tensor assign(const Tensor& value) override { return write(Write::Assign, value); }
  Tensor assign_add(const Tensor& delta) override { return write(Write::AssignAdd, delta); }
  Tensor assign_sub(const Tensor& delta) override { return write(Write::AssignSub, delta); }
  Tensor write_number(Write how, const Tensor& number) override {
    return write_value(how, {number, true});
  }
  Tensor scatter(ScatterOp op, const IndexedSlices& slices) override;
  Tensor value_across() const override { return read_across(); }
  void restore(const Tensor& value) override;
  std::shared_ptr<VariableImpl> deep_copy() const override;
  // "MirroredVariable:{\n  0: …,\n  1: …\n}"
  std::string to_string() const override;

  // A write of one value, or of one that may have a part for each copy.
  Tensor write(Write how, const Tensor& value) { return write_value(how, {value}); }
  Tensor write(Write how, const DistributedValue& value);

  // Held while all copies are written, so that those of two threads end with the same write: for
  // all variables of a strategy one.
  WriteOrder& writing_all() const { return *order_; }
  void share_order(std::shared_ptr<WriteOrder> order) { order_ = std::move(order); }

  // Whether copies may legally differ: they were written one by one since all were last set alike.
  virtual bool may_differ() const { return true; }
  virtual void note_own_write() {}

 protected:
  DistributedVariable(std::vector<Variable> copies, VariableOptions options);

  virtual std::string_view kind() const = 0;  // "MirroredVariable"
  // What the variable is outside of replicas.
  virtual Tensor read_across() const = 0;
  // Which copy a gradient outside of replicas is for.
  virtual size_t copy_across() const { return 0; }
  virtual Tensor write_across(Write how, const Tensor& value) = 0;
  // `values` has one for each copy.
  virtual Tensor write_across_parts(Write how, const std::vector<Tensor>& values) = 0;
  virtual Tensor write_in_replica(ReplicaContext& replica, Write how,
                                  const WrittenValue& given) = 0;
  virtual Tensor scatter_across(ScatterOp op, const IndexedSlices& slices) = 0;
  virtual Tensor scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                                    const IndexedSlices& slices) = 0;
  // A variable of the same kind with other copies.
  virtual std::shared_ptr<DistributedVariable> like_this(std::vector<Variable> copies) const = 0;

  VariableImpl& copy(size_t index) const { return *VariableAccess::impl(copies_[index]); }
  // Writes one copy, on its device.
  Tensor write_copy(size_t index, Write how, const Tensor& value) const;
  [[noreturn]] void refuse_parts(std::string_view reason) const;

 private:
  Tensor write_value(Write how, const WrittenValue& given);
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

// The variable as its strategy's, with its copies knowing of it.
Variable adopt_copies(Strategy& strategy, std::shared_ptr<DistributedVariable> variable);

// What stands behind `variable` when a strategy keeps copies of it, else null.
std::shared_ptr<DistributedVariable> distributed(const Variable& variable);

// Held while code outside of replicas writes all copies one by one. Locked unless there are none, a
// graph is built, or the thread is inside such a write.
WritersTurn turn_to_write(const Variable& variable);

// Its label, or its name in quotes where no strategy keeps copies of it.
std::string label_of(const Variable& variable);
// For a list. Those that have one label are told apart by the order in which they were made, which
// is the same on all workers: "'w'", "'w' (made 1 later)".
std::vector<std::string> labels_of(const std::vector<Variable>& variables);

// "assign_add"
std::string_view name_of(Write how);
// "scatter_add"
std::string_view name_of(ScatterOp op);

}  // namespace cohort::internal
