#pragma once

// Makes the copies of a torch module, one for each replica, and keeps them consistent. Users
// include cohort/torch.h instead.

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/internal/torch_random.h"
#include "cohort/internal/worker_agreement.h"
#include "cohort/strategy.h"

namespace cohort::internal {

// TorchModes spreads to all copies which parts of a module are in training mode and which
// parameters learn. What code outside `run` sets in the first copy, through the module or a
// reference that it kept, applies to all copies from the next run on. What a replica sets inside
// `run` applies to its own copy. Not thread-safe.
class TorchModes {
 public:
  // Copies are added one after the other, and begin with equal modes.
  void add_copy(const torch::nn::Module& copy) {
    copies_.push_back({copy.modules(), copy.parameters()});
    if (copies_.size() == 1) note();
  }
  // Called before a run.
  void spread() {
    if (of_first() == known_) return;
    for (size_t i = 1; i < copies_.size(); ++i) set_modes(copies_[i], copies_[0]);
    note();
  }
  // Called after a run.
  void note() { known_ = of_first(); }

 private:
  struct Parts {
    std::vector<std::shared_ptr<torch::nn::Module>> modules;  // a parent before its children
    std::vector<at::Tensor> parameters;
  };

  std::vector<bool> of_first() const {
    std::vector<bool> modes;
    for (const auto& module : copies_[0].modules) modes.push_back(module->is_training());
    for (const auto& parameter : copies_[0].parameters) modes.push_back(parameter.requires_grad());
    return modes;
  }
  static void set_modes(const Parts& target, const Parts& like) {
    for (size_t i = 0; i < std::min(target.modules.size(), like.modules.size()); ++i) {
      target.modules[i]->train(like.modules[i]->is_training());
    }
    for (size_t i = 0; i < std::min(target.parameters.size(), like.parameters.size()); ++i) {
      target.parameters[i].set_requires_grad(like.parameters[i].requires_grad());
    }
  }

  std::vector<Parts> copies_;
  std::vector<bool> known_;  // the modes of the first copy
};

// TorchParts checks that the parameters and buffers of the copies remain those that the constructor
// made, because nothing would train, spread or save others.
class TorchParts {
 public:
  // Copies are added one after the other.
  void add_copy(std::shared_ptr<const torch::nn::Module> copy) {
    Parts parts{std::move(copy), {}, {}};
    parts.named = named(*parts.module);
    collect(*parts.module, parts.tensors);
    copies_.push_back(std::move(parts));
  }
  // Throws FailedPrecondition, naming a tensor that was replaced, added or removed.
  void require_unchanged() const {
    for (size_t i = 0; i < copies_.size(); ++i) {
      std::vector<const c10::TensorImpl*> now;
      now.reserve(copies_[i].tensors.size());
      collect(*copies_[i].module, now);
      if (now != copies_[i].tensors) throw_changed(i);
    }
  }

 private:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  struct Parts {
    std::shared_ptr<const torch::nn::Module> module;
    std::vector<const c10::TensorImpl*> tensors;
    Named named;  // keeps the tensors alive, so that their addresses stay taken
  };

  // Collects without names, which torch builds as strings, because each run calls this.
  static void collect(const torch::nn::Module& module,
                      std::vector<const c10::TensorImpl*>& tensors) {
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      tensors.push_back(item.value().unsafeGetTensorImpl());
    }
    for (const auto& item : module.named_buffers(/*recurse=*/false)) {
      tensors.push_back(item.value().unsafeGetTensorImpl());
    }
    for (const auto& child : module.children()) collect(*child, tensors);
  }
  static Named named(const torch::nn::Module& module) {
    Named all;
    for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
    for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
    return all;
  }
  static const at::Tensor* find(const Named& all, const std::string& name) {
    for (const auto& [key, value] : all) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  [[noreturn]] void throw_changed(size_t copy) const {
    const Named now = named(*copies_[copy].module);
    for (const auto& [name, value] : copies_[copy].named) {
      const at::Tensor* const other = find(now, name);
      if (other == nullptr) throw_part(copy, name, "removed");
      if (!other->is_same(value)) throw_part(copy, name, "replaced");
    }
    for (const auto& [name, value] : now) {
      if (find(copies_[copy].named, name) == nullptr) throw_part(copy, name, "added");
    }
    throw_part(copy, now.empty() ? "" : now[0].first, "moved");
  }
  [[noreturn]] static void throw_part(size_t copy, const std::string& name,
                                      const std::string& what) {
    throw Error(Code::FailedPrecondition,
                "[TorchModule] '" + name + "' of local replica " + std::to_string(copy) + " was " +
                    what +
                    " after the module was made, by replace_module(), register_module() or the "
                    "like, so that no variable, optimizer, checkpoint or other replica follows; "
                    "make it in the module's constructor, which makes the copies of all replicas, "
                    "and change values in net.configure(f)");
  }

  std::vector<Parts> copies_;
};

// Returns the number of copies for the current strategy: one per local replica, or one without a
// strategy.
inline size_t copies_for_this_scope() {
  if (!has_strategy()) return 1;
  if (in_cross_replica_context()) return get_strategy().extended().worker_devices().size();
  throw Error(Code::FailedPrecondition,
              "[TorchModule] the module was made inside run(), where every replica would make its "
              "own; make it in the strategy's scope, before the run");
}

// Returns the index of the own replica's copy, or of the first copy outside `run`. Throws
// FailedPrecondition if the replica has no copy.
inline size_t own_torch_copy(size_t copies) {
  const size_t own = current_component().value_or(0);
  if (own < copies) return own;
  throw Error(Code::FailedPrecondition, "[TorchModule] replica " + std::to_string(own) +
                                            " has no copy of a module that was made for " +
                                            std::to_string(copies) +
                                            (copies == 1 ? " replica" : " replicas") +
                                            "; make it in the scope of the strategy that runs it");
}

// Returns the state of torch's generator from which each copy is made. All workers get the first
// worker's state.
inline std::string common_torch_random(StrategyExtended& extended) {
  const std::string own = torch_random_state();
  const Tensor bytes = Tensor::from(std::vector<uint8_t>(own.begin(), own.end()));
  const std::vector<uint8_t> first =
      value_of_first_worker(extended, "a torch module's random numbers", bytes)
          .to_vector<uint8_t>();
  return {first.begin(), first.end()};
}

// Calls `make` with torch's generator in the given state, and restores the generator afterwards.
template <typename F>
auto made_aside(const std::string& state, const F& make) {
  const TorchRandomScope aside(0);
  restore_torch_random(state);
  return make();
}

// Lists each tensor under its first name, because parts of a module may share a tensor.
inline std::vector<std::pair<std::string, at::Tensor>> each_once(
    const torch::OrderedDict<std::string, at::Tensor>& named) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : named) {
    const auto same = [&](const auto& known) { return known.second.is_same(item.value()); };
    if (std::none_of(all.begin(), all.end(), same)) all.emplace_back(item.key(), item.value());
  }
  return all;
}

// Returns the name of a parameter or buffer that both modules hold, or "" if they share none.
inline std::string common_tensor(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto find = [](const auto& named, const auto& others) {
    for (const auto& item : named) {
      const auto same = [&](const at::Tensor& other) { return other.is_same(item.value()); };
      if (std::any_of(others.begin(), others.end(), same)) return item.key();
    }
    return std::string();
  };
  const std::string parameter = find(a.named_parameters(), b.parameters());
  return parameter.empty() ? find(a.named_buffers(), b.buffers()) : parameter;
}

// Returns `made`, or a clone of `first` if both share parts that came in with the arguments.
template <typename Net>
std::shared_ptr<Net> apart_from(const std::shared_ptr<Net>& first, std::shared_ptr<Net> made) {
  const std::string common = common_tensor(*first, *made);
  if (common.empty()) return made;
  try {
    return std::dynamic_pointer_cast<Net>(first->clone());
  } catch (const c10::Error&) {
    throw Error(Code::InvalidArgument,
                "[TorchModule] the replicas' copies would share '" + common +
                    "', which came in with an argument, and the module cannot be cloned; make its "
                    "parts in its constructor, or derive it from torch::nn::Cloneable");
  }
}

// Each replica writes its own buffers. TorchStatistics makes them equal after each run.
inline VariableOptions buffer_options(const std::string& name) {
  return {.name = name,
          .trainable = false,
          .synchronization = VariableSynchronization::OnRead,
          .aggregation = VariableAggregation::OnlyFirstReplica};
}

}  // namespace cohort::internal
