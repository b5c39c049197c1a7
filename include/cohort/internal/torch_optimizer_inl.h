#pragma once

// Definitions of TorchOptimizer. Users include cohort/torch.h instead.

#include <algorithm>
#include <atomic>
#include <sstream>

#include "cohort/internal/common_bytes.h"
#include "cohort/internal/run_observer.h"
#include "cohort/internal/torch_module_inl.h"
#include "cohort/torch.h"

namespace cohort {

// The variable changes at the first step, so this reads it each time.
template <typename Optimizer>
struct TorchOptimizer<Optimizer>::Count {
  nn::NamedVariables named_variables() const { return {{"", updates.iterations()}}; }
  const internal::ExternalUpdates& updates;
};

template <typename Optimizer>
struct TorchOptimizer<Optimizer>::State : internal::RunObserver {
  void before_run() override {
    if (handed_out) spread_options();
  }
  void after_run(bool) override {}
  void spread_options() {
    const auto& first = copies[0]->param_groups();
    for (size_t i = 1; i < copies.size(); ++i) {
      auto& groups = copies[i]->param_groups();
      for (size_t g = 0; g < std::min(groups.size(), first.size()); ++g) {
        groups[g].set_options(first[g].options().clone());
      }
    }
  }

  std::vector<std::unique_ptr<Optimizer>> copies;
  // Whether code outside `run` got the first instance. It may keep the reference, as torch's
  // schedulers do.
  std::atomic<bool> handed_out = false;
};

template <typename Optimizer>
template <typename Net, typename... Options>
TorchOptimizer<Optimizer>::TorchOptimizer(const TorchModule<Net>& net, const Options&... options) {
  for (size_t i = 0; i < net.num_copies(); ++i) {
    state_->copies.push_back(std::make_unique<Optimizer>(net.parameters(i), options...));
  }
  if (net.num_copies() > 1) internal::observe_runs(net.state_->strategy, state_);
}

template <typename Optimizer>
template <typename Net, typename F>
void TorchOptimizer<Optimizer>::minimize(const at::Tensor& loss, const TorchModule<Net>& net,
                                         const F& adjust) {
  net.check_before_update();
  net.check_loss(loss);
  apply(internal::torch_gradients(loss, net.parameters(), net.variables()), net, adjust);
}

template <typename Optimizer>
template <typename Net>
void TorchOptimizer<Optimizer>::apply_gradients(const Gradients& gradients,
                                                const TorchModule<Net>& net) {
  net.check_before_update();
  apply(gradients, net, [](const std::vector<at::Tensor>&) {});
}

template <typename Optimizer>
TorchOptimizer<Optimizer>::operator Trackable() const {
  const Count count{updates_};
  return Checkpoint({{"iterations", count}, {"torch", torch_state()}});
}

template <typename Optimizer>
template <typename F>
void TorchOptimizer<Optimizer>::configure(const F& change) const {
  for (const auto& copy : state_->copies) change(*copy);
}

template <typename Optimizer>
void TorchOptimizer<Optimizer>::set_learning_rate(double rate) const {
  configure([rate](Optimizer& copy) {
    for (auto& group : copy.param_groups()) group.options().set_lr(rate);
  });
}

template <typename Optimizer>
Optimizer& TorchOptimizer<Optimizer>::own_copy() const {
  if (!internal::current_component()) state_->handed_out = true;
  return *state_->copies[internal::own_torch_copy(state_->copies.size())];
}

template <typename Optimizer>
Trackable TorchOptimizer<Optimizer>::torch_state() const {
  return internal::common_bytes(
      [this] {
        std::ostringstream bytes;
        torch::save(*state_->copies[0], bytes);
        return bytes.str();
      },
      [this](const std::string& saved) {
        for (const auto& copy : state_->copies) load(*copy, saved);
      });
}

template <typename Optimizer>
void TorchOptimizer<Optimizer>::load(Optimizer& copy, const std::string& saved) {
  // Torch adds to the existing state and leaves the options unchanged.
  auto before = std::move(copy.state());
  copy.state().clear();
  try {
    std::istringstream bytes(saved);
    torch::serialize::InputArchive archive, groups;
    archive.load_from(bytes);
    copy.load(archive);
    archive.read("param_groups", groups);
    for (size_t i = 0; i < copy.param_groups().size(); ++i) {
      torch::serialize::InputArchive group, options;
      groups.read("param_groups/" + std::to_string(i), group);
      group.read("options", options);
      copy.param_groups()[i].options().serialize(options);
    }
  } catch (const c10::Error& error) {
    copy.state() = std::move(before);
    throw Error(Code::DataLoss,
                std::string("[TorchOptimizer] the saved state is not that of an optimizer of this "
                            "kind: ") +
                    error.what_without_backtrace());
  }
}

template <typename Optimizer>
template <typename Net, typename F>
void TorchOptimizer<Optimizer>::apply(const Gradients& gradients, const TorchModule<Net>& net,
                                      const F& adjust) {
  updates_.apply(gradients, net.variables(), [&](const Gradients& sums) {
    const std::vector<at::Tensor>& parameters = net.parameters();
    const internal::GradientsInPlace in_place(parameters, sums);
    adjust(parameters);
    const size_t own = internal::own_torch_copy(state_->copies.size());
    state_->copies[own]->step();
    net.state_->parameters.note_writes(own);
  });
}

}  // namespace cohort
