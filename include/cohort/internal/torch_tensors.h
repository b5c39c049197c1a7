#pragma once

// The tensors of a torch module's copies and the variables that they are. Not for inclusion by
// users: include cohort/torch.h.

#include <torch/torch.h>

#include <memory>
#include <mutex>
#include <vector>

#include "cohort/internal/held_value.h"
#include "cohort/strategy.h"

namespace cohort::internal {

// Tensors of one kind. Where a strategy keeps one copy of a variable for all replicas, the copies
// of the module share its memory; of what the replicas write by themselves the first one's copy
// does, and the others have their own, which begins with what the variable was given.
class SharedTensors {
 public:
  explicit SharedTensors(bool replicas_write) : replicas_write_(replicas_write) {}

  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<at::Tensor>& of_copy(size_t copy) const { return tensors_[copy]; }

  // Before the copies' tensors are added.
  void add_variable(const Variable& variable) {
    variables_.push_back(variable);
    components_.push_back(get_strategy().local_results(variable));
    for (const Variable& component : components_.back()) require_held(component);
  }
  // Of one copy after the other, in the order of the variables, whose values they get. Each copy
  // has memory of its own: torch writes into it.
  void add_copy(std::vector<at::Tensor> tensors) {
    tensors_.push_back(std::move(tensors));
    given_->values.resize(variables_.size());
  }

  // Gives a copy the values of variables that were given another one since, by assign() or a
  // checkpoint. Who gave it may hold it still, and torch writes into what it has: it gets memory of
  // its own.
  void follow(size_t copy) const {
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (components_[i].size() == tensors_.size()) {
        follow_own(components_[i][copy], tensors_[copy][i]);
      } else {
        follow_common(copy, i);
      }
    }
  }
  // Leaves the memory to the variables alone, which can then be changed in place.
  void release_values(size_t copy) const {
    for (at::Tensor tensor : tensors_[copy]) tensor.set_data(torch::empty({0}, tensor.options()));
  }
  // Afterwards.
  void take_values(size_t copy) const {
    for (size_t i = 0; i < variables_.size(); ++i) {
      const auto& own = components_[i];
      const Tensor value = own[own.size() == tensors_.size() ? copy : 0].read_value();
      at::Tensor(tensors_[copy][i]).set_data(at::Tensor(value));
    }
  }

 private:
  // What is known of a variable that has one copy for all.
  struct Common {
    const void* memory = nullptr;  // that is its own
    at::Tensor start = {};         // what it was given, for copies with memory of their own
    std::vector<bool> started = {};
  };
  struct Given {
    std::mutex mutex;  // guards what follows
    std::vector<Common> values;
  };

  // What torch cannot share the memory of, it would have values of its own for, which nobody
  // trains.
  static void require_held(const Variable& component) {
    if (held_value(component).defined()) return;
    throw Error(Code::FailedPrecondition,
                "[TorchModule] the value of '" + component.name() +
                    "' is not in the memory of this process, where torch needs it: it is on a "
                    "parameter server, or part of a graph that is being built. Use a strategy "
                    "that keeps variables here (MirroredStrategy, MultiWorkerMirroredStrategy), "
                    "or make Variables and call torch in a COHORT_FUNCTION that the workers run");
  }

  static void follow_own(const Variable& component, at::Tensor tensor) {
    const Tensor held = held_value(component);
    if (!held.defined()) return;
    const at::Tensor value = held;
    if (value.data_ptr() != tensor.data_ptr()) tensor.set_data(owned(component, value));
  }

  void follow_common(size_t copy, size_t variable) const {
    const Variable& component = components_[variable][0];
    const Tensor held = held_value(component);
    if (!held.defined()) return;
    const std::lock_guard lock(given_->mutex);
    Common& known = given_->values[variable];
    at::Tensor value = held_value(component);
    if (value.data_ptr() != known.memory) {
      if (replicas_write_) known.start = value;
      known.started.assign(tensors_.size(), false);
      value = owned(component, value);
      known.memory = value.data_ptr();
    }
    at::Tensor tensor = tensors_[copy][variable];
    if (copy == 0 || !replicas_write_) {
      if (tensor.data_ptr() != value.data_ptr()) tensor.set_data(value);
    } else if (!known.started[copy]) {
      tensor.set_data(known.start.clone());
      known.started[copy] = true;
    }
  }

  // The value in memory that is the variable's alone.
  static at::Tensor owned(const Variable& component, const at::Tensor& value) {
    at::Tensor own = value.clone();
    set_held_value(component, Tensor(own));
    return own;
  }

  bool replicas_write_;
  std::vector<Variable> variables_;
  std::vector<std::vector<Variable>> components_;  // of each variable, by replica, or one
  std::vector<std::vector<at::Tensor>> tensors_;   // of each copy, by variable
  std::shared_ptr<Given> given_ = std::make_shared<Given>();
};

}  // namespace cohort::internal
