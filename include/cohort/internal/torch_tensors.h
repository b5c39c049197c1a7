#pragma once

// The tensors of a torch module's copies and the variables behind them. Users include
// cohort/torch.h instead.

#include <torch/torch.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cohort/internal/held_value.h"
#include "cohort/internal/torch_writes.h"
#include "cohort/internal/worker_agreement.h"
#include "cohort/strategy.h"

namespace cohort::internal {

// SharedTensors connects tensors of one kind, such as parameters, with their variables. If a
// strategy keeps one copy of a variable for all replicas, the module's copies share that memory,
// except for tensors that each replica writes on its own: there, only the first copy shares the
// variable's memory, and every other copy has its own tensor, which starts with the value that the
// variable was given.
//
// If there are several replicas, on this worker or on all, a write to a tensor must go through its
// variable, because no other replica would follow. This class records the allowed writes and
// detects all others.
class SharedTensors {
 public:
  struct Options {
    bool several_replicas;
    bool replicas_write;  // each replica its own tensor, as for statistics
  };
  explicit SharedTensors(Options options) : options_(options) {}

  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<at::Tensor>& of_copy(size_t copy) const { return tensors_[copy]; }
  size_t num_copies() const { return tensors_.size(); }

  struct Place {
    size_t copy;
    size_t variable;
  };
  // Returns the copy and the variable to which a tensor belongs, or nullopt if it belongs to none.
  std::optional<Place> find(const at::Tensor& tensor) const {
    const auto found = places_.find(tensor.unsafeGetTensorImpl());
    if (found == places_.end()) return std::nullopt;
    return found->second;
  }

  // Must be called before the copies' tensors are added.
  void add_variable(const Variable& variable) {
    variables_.push_back(variable);
    components_.push_back(get_strategy().local_results(variable));
    for (const Variable& component : components_.back()) require_held(component);
  }
  // Adds the tensors of one copy, in the order of the variables, whose values follow() gives them.
  // Copies are added one after the other. They must not share memory, because torch writes into it.
  void add_copy(std::vector<at::Tensor> tensors) {
    tensors_.push_back(std::move(tensors));
    known_.emplace_back(variables_.size());
    common_.resize(variables_.size());
    const size_t copy = tensors_.size() - 1;
    for (size_t i = 0; i < variables_.size(); ++i) {
      places_[tensors_[copy][i].unsafeGetTensorImpl()] = {copy, i};
      if (finds_writes()) known_[copy][i].mark.watch(tensors_[copy][i]);
    }
    note_writes(copy);
  }

  // Gives a copy the values of variables that assign() or a checkpoint has changed. The caller of
  // assign() may still hold that value, and torch writes into its tensors, so the copy gets a copy
  // of the value. Throws FailedPrecondition if something other than this class gave a tensor new
  // memory; with one replica, the variable takes over that memory instead.
  void follow(size_t copy) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (tensors_[copy][i].data_ptr() != known_[copy][i].memory) take_over(copy, i);
      if (has_own(i)) {
        follow_own(copy, i);
      } else {
        follow_common(copy, i);
      }
    }
  }
  // Leaves the memory to the variables alone, which can then be changed in place.
  void release_values(size_t copy) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      set(copy, i, torch::empty({0}, tensors_[copy][i].options()));
    }
  }
  // Gives the copy the variables' memory again, after release_values().
  void take_values(size_t copy) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      set(copy, i, components_[i][has_own(i) ? copy : 0].read_value());
    }
  }

  // Records that the copy's tensors were written in place by an allowed writer.
  void note_writes(size_t copy) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      // Copies that share the memory have the new value, too.
      for (size_t other = 0; !has_own(i) && other < tensors_.size(); ++other) note(other, i);
      note(copy, i);
    }
  }
  // Throws FailedPrecondition, naming the tensor, if a tensor of the copy was written otherwise.
  void require_no_other_writes(size_t copy) {
    if (!finds_writes()) return;
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (known_[copy][i].mark.is_written(tensors_[copy][i])) throw_written(copy, i);
    }
  }
  // Whether copies share the memory of tensors that only updates write.
  bool is_shared() const {
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (!has_own(i) && !options_.replicas_write) return true;
    }
    return false;
  }
  // How many times the variable's tensor in the first copy was given a value.
  uint64_t times_given(size_t variable) const { return known_[0][variable].times_given; }
  // Makes the first copy's current values the values of the variables, for all copies. With several
  // workers, these are the values of the first worker. Only outside `run`.
  void spread_first_copy(StrategyExtended& extended) {
    note_writes(0);
    for (size_t i = 0; i < variables_.size(); ++i) {
      const Tensor value(tensors_[0][i].detach().clone());
      variables_[i].assign(value_of_first_worker(extended, "TorchModule::configure", value));
    }
    for (size_t copy = 0; copy < tensors_.size(); ++copy) follow(copy);
  }
  // Throws FailedPrecondition if a tensor of the copy has other memory than it was given.
  void require_same_memory(size_t copy) const {
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (tensors_[copy][i].data_ptr() != known_[copy][i].memory) throw_written(copy, i);
    }
  }

 private:
  struct Known {
    const void* memory = nullptr;
    uint64_t times_given = 0;
    TensorMark mark = {};
  };
  // What is known about a variable with one copy for all replicas.
  struct Common {
    const void* memory = nullptr;  // belongs to the variable alone
    at::Tensor start = {};         // the given value, for copies with memory of their own
    std::vector<bool> started = {};
  };

  // Throws FailedPrecondition if the variable's memory is not in this process. Otherwise the module
  // would compute with a second set of values, which no optimizer updates.
  static void require_held(const Variable& component) {
    if (held_value(component).defined()) return;
    throw Error(Code::FailedPrecondition,
                "[TorchModule] the value of '" + component.name() +
                    "' is not in the memory of this process, where torch needs it: it is on a "
                    "parameter server, or part of a graph that is being built. Use a strategy "
                    "that keeps variables here (MirroredStrategy, MultiWorkerMirroredStrategy), "
                    "or make Variables and call torch in a COHORT_FUNCTION that the workers run");
  }

  bool has_own(size_t variable) const { return components_[variable].size() == tensors_.size(); }

  bool finds_writes() const { return options_.several_replicas && !options_.replicas_write; }

  void note(size_t copy, size_t variable) {
    const at::Tensor& tensor = tensors_[copy][variable];
    Known& known = known_[copy][variable];
    known.memory = tensor.data_ptr();
    if (finds_writes()) known.mark.note(tensor);
  }

  // Gives the tensor other memory, which torch does not count as a write.
  void set(size_t copy, size_t variable, const at::Tensor& value) {
    at::Tensor tensor = tensors_[copy][variable];
    tensor.set_data(value);
    Known& known = known_[copy][variable];
    known.memory = tensor.data_ptr();
    ++known.times_given;
    if (finds_writes()) known.mark.note_memory(tensor);
  }

  // Called after Module::load() or Module::to(), which give tensors other memory.
  void take_over(size_t copy, size_t variable) {
    const at::Tensor& tensor = tensors_[copy][variable];
    const Tensor held = held_value(components_[variable][0]);
    if (options_.several_replicas || !held.defined() || held.shape() != Shape(tensor.sizes()) ||
        at::Tensor(held).scalar_type() != tensor.scalar_type()) {
      throw_written(copy, variable);
    }
    known_[copy][variable].memory = tensor.data_ptr();
    set_held_value(components_[variable][0], Tensor(tensor.detach()));
  }

  void follow_own(size_t copy, size_t variable) {
    const Variable& component = components_[variable][copy];
    const Tensor held = held_value(component);
    if (!held.defined()) return;
    const at::Tensor value = held;
    if (value.data_ptr() == tensors_[copy][variable].data_ptr()) return;
    set(copy, variable, owned(component, value));
  }

  void follow_common(size_t copy, size_t variable) {
    const Variable& component = components_[variable][0];
    const Tensor held = held_value(component);
    if (!held.defined()) return;
    const std::lock_guard lock(mutex_);
    Common& known = common_[variable];
    at::Tensor value = held_value(component);
    if (value.data_ptr() != known.memory) {
      if (options_.replicas_write) known.start = value;
      known.started.assign(tensors_.size(), false);
      value = owned(component, value);
      known.memory = value.data_ptr();
    }
    if (copy == 0 || !options_.replicas_write) {
      if (tensors_[copy][variable].data_ptr() != value.data_ptr()) set(copy, variable, value);
    } else if (!known.started[copy]) {
      set(copy, variable, known.start.clone());
      known.started[copy] = true;
    }
  }

  // Returns the value in memory that belongs to the variable alone.
  static at::Tensor owned(const Variable& component, const at::Tensor& value) {
    at::Tensor own = value.clone();
    set_held_value(component, Tensor(own));
    return own;
  }

  [[noreturn]] void throw_written(size_t copy, size_t variable) const {
    throw Error(Code::FailedPrecondition,
                "[TorchModule] '" + variables_[variable].name() + "' of local replica " +
                    std::to_string(copy) +
                    " was written past its variable, by step() of a torch optimizer, in place, or "
                    "by load() or to(), so that replicas and workers no longer have one value; "
                    "call minimize(loss, net) of a cohort::TorchOptimizer or an optimizer of "
                    "cohort::optim inside run(), make other changes in net.configure(f), or "
                    "assign() to net.variables()");
  }

  const Options options_;
  std::vector<Variable> variables_;
  std::vector<std::vector<Variable>> components_;  // by variable, then by replica, or one for all
  std::vector<std::vector<at::Tensor>> tensors_;   // by copy, then by variable
  std::vector<std::vector<Known>> known_;          // likewise; each replica uses its own entries
  std::unordered_map<const c10::TensorImpl*, Place> places_;
  std::mutex mutex_;
  std::vector<Common> common_;  // by variable; guarded by mutex_
};

}  // namespace cohort::internal
