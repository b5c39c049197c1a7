#pragma once

#include <functional>
#include <span>

#include "base/mutex.h"
#include "cohort/variable.h"
#include "kernels/indexed_rows.h"
#include "tensor/body.h"

namespace cohort {
class Strategy;
}

namespace cohort::internal {

// One copy of a variable on one device: the resource that variable ops refer to.
//
// Readers share the value with the cell; a writer changes it in place when only the cell holds it
// and writes a new one otherwise. Both decisions are made under the mutex, so a value that was
// handed out never changes.
class VariableCell : public Resource {
 public:
  // Without a value the variable is uninitialised: reading or updating it throws
  // FailedPrecondition naming it, until a value is assigned.
  explicit VariableCell(std::string name, Tensor value = {});

  const std::string& name() const { return name_; }
  bool is_initialized() const;
  Tensor read() const;
  // Replaces the value, which has the variable's dtype and fits its shape.
  Tensor assign(Tensor value);
  // Lets `change` alter the value. It gets contiguous memory of its own on the current device,
  // holding the value, and must not fail once it has begun to write.
  Tensor update(const std::function<void(const Tensor& exclusive)>& change);

 private:
  // mutex_ is held
  void check_initialized() const;
  void change_copy(const std::function<void(const Tensor& exclusive)>& change);

  const std::string name_;
  mutable Mutex mutex_;
  Tensor value_;  // guarded by mutex_
};

// What variable ops need to know of one copy. The handle is a resource, or in a graph the symbol of
// one; its identity is the copy's.
struct VariableHandle {
  Tensor handle;
  std::string name;
  DType dtype;
  Shape shape;  // what assigned values must fit
};

// The implementation of a Variable: one cell, or the several that a strategy keeps in step.
class VariableImpl {
 public:
  virtual ~VariableImpl() = default;
  virtual const std::string& name() const = 0;
  virtual const VariableOptions& options() const = 0;
  virtual bool trainable() const = 0;
  // The copy that this thread, in its present context, reads and differentiates.
  virtual const VariableHandle& handle() const = 0;
  // The copy whose dtype and shape are the variable's, whatever the context.
  virtual const VariableHandle& first_copy() const { return handle(); }
  virtual std::string device() const = 0;
  // Whether all copies have a value.
  virtual bool is_initialized() const = 0;
  virtual Tensor read() const = 0;
  // What the variable is where a tensor is wanted.
  virtual Tensor convert() const { return read(); }
  virtual Tensor write(Write how, const Tensor& value) = 0;
  // A write of a C++ number, which is one value for all replicas.
  virtual Tensor write_number(Write how, const Tensor& number) { return write(how, number); }
  // Makes the value over all replicas larger by `delta`, wherever the thread is: for running sums.
  virtual void accumulate(const Tensor& delta) { write(Write::AssignAdd, delta); }
  virtual Tensor scatter(ScatterOp op, const IndexedSlices& slices) = 0;
  // The one value over all replicas, whatever the context: what a checkpoint keeps. restore() makes
  // it that again, for any number of replicas.
  virtual Tensor value_across() const { return read(); }
  virtual void restore(const Tensor& value) { write(Write::Assign, value); }
  // Another variable with the same options, places and values.
  virtual std::shared_ptr<VariableImpl> deep_copy() const = 0;
  virtual std::string to_string() const = 0;
  // The shards of a sharded variable, in the order of their rows; empty for other variables.
  virtual std::span<const Variable> shards() const { return {}; }
  // The shards, or the copies that a strategy keeps; empty for a variable that is one copy itself.
  virtual std::span<const Variable> parts() const { return {}; }

  // Set by a strategy before the variable is used: whose it is, and of which variable
  // this is a copy.
  Strategy* strategy = nullptr;
  std::weak_ptr<VariableImpl> whole = {};
};

[[noreturn]] void raise_undefined_variable();

struct VariableAccess {
  static Variable make(std::shared_ptr<VariableImpl> impl) { return Variable(std::move(impl)); }
  // Throws FailedPrecondition for a variable that holds nothing.
  static const std::shared_ptr<VariableImpl>& impl(const Variable& variable) {
    if (!variable.defined()) raise_undefined_variable();
    return variable.impl_;
  }
};

}  // namespace cohort::internal
