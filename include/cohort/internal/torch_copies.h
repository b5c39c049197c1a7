#pragma once

// The copies of a torch module, one for each replica, and what keeps them together. Not for
// inclusion by users: include cohort/torch.h.

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cohort/strategy.h"

namespace cohort::internal {

// What code outside of `run` sets in the first copy of a module: which parts of it train, and which
// parameters learn. The other copies are told before a replica uses one of them. Thread-safe.
class TorchModes {
 public:
  // That code got hold of the first copy.
  void handed_out() { changed_.store(true, std::memory_order_release); }

  template <typename Net>
  void spread(const std::vector<std::shared_ptr<Net>>& copies) {
    if (!changed_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (!changed_.load(std::memory_order_relaxed)) return;
    for (size_t i = 1; i < copies.size(); ++i) set_modes(*copies[i], *copies[0]);
    changed_.store(false, std::memory_order_release);
  }

 private:
  static void set_modes(const torch::nn::Module& target, const torch::nn::Module& like) {
    const auto modules = target.modules();  // those above come before those below
    const auto their_modules = like.modules();
    for (size_t i = 0; i < std::min(modules.size(), their_modules.size()); ++i) {
      modules[i]->train(their_modules[i]->is_training());
    }
    const auto parameters = target.parameters();
    const auto their_parameters = like.parameters();
    for (size_t i = 0; i < std::min(parameters.size(), their_parameters.size()); ++i) {
      parameters[i].set_requires_grad(their_parameters[i].requires_grad());
    }
  }

  std::atomic<bool> changed_ = false;
  std::mutex mutex_;  // one spreads
};

// One replica's worth of copies, or as many as the strategy has replicas here.
inline size_t copies_for_this_scope() {
  if (!has_strategy()) return 1;
  if (in_cross_replica_context()) return get_strategy().extended().worker_devices().size();
  throw Error(Code::FailedPrecondition,
              "[TorchModule] made inside of run(), where every replica would make its own; make it "
              "in the strategy's scope, before the run");
}

// The number of the own replica's copy, outside of `run` of the first. Throws FailedPrecondition
// where there is none.
inline size_t own_torch_copy(size_t copies) {
  const size_t own = current_component().value_or(0);
  if (own < copies) return own;
  throw Error(Code::FailedPrecondition, "[TorchModule] replica " + std::to_string(own) +
                                            " has no copy of a module that was " + "made for " +
                                            std::to_string(copies) +
                                            (copies == 1 ? " replica" : " replicas") +
                                            "; make it in the scope of the strategy that runs it");
}

// Each tensor under the first of its names: parts of a module may share it.
inline std::vector<std::pair<std::string, at::Tensor>> each_once(
    const torch::OrderedDict<std::string, at::Tensor>& named) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : named) {
    const auto same = [&](const auto& known) { return known.second.is_same(item.value()); };
    if (std::none_of(all.begin(), all.end(), same)) all.emplace_back(item.key(), item.value());
  }
  return all;
}

// The name of a parameter or buffer that both modules hold; "" when there is none.
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

// `made`, or a clone of `first` where parts of both came in with the arguments and are the same.
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

// Replicas write their own; TorchStatistics makes them equal after each run.
inline VariableOptions buffer_options(const std::string& name) {
  return {.name = name,
          .trainable = false,
          .synchronization = VariableSynchronization::OnRead,
          .aggregation = VariableAggregation::OnlyFirstReplica};
}

}  // namespace cohort::internal
