#pragma once

// LibTorch's optimizers under a strategy. Not for inclusion by users: include cohort/torch.h.

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/internal/common_bytes.h"
#include "cohort/internal/external_updates.h"
#include "cohort/internal/run_observer.h"
#include "cohort/torch_module.h"

namespace cohort {

// One of torch's own optimizers under a strategy: TorchOptimizer<torch::optim::Adam> adam(net,
// torch::optim::AdamOptions(1e-3)), one for each copy of the module. The strategy's guards watch
// over its updates. A Checkpoint keeps it, as it keeps a module: {"optimizer", adam}.
template <typename Optimizer>
class TorchOptimizer {
 public:
  // Without options: torch's defaults, where the optimizer has them.
  template <typename Net, typename... Options>
  explicit TorchOptimizer(const TorchModule<Net>& net, const Options&... options) {
    for (size_t i = 0; i < net.num_copies(); ++i) {
      state_->copies.push_back(std::make_unique<Optimizer>(net.parameters(i), options...));
    }
    if (net.num_copies() > 1) internal::observe_runs(net.state_->strategy, state_);
  }

  // One step along the gradients of `loss`, summed over all replicas. Parameters without a gradient
  // stay as they are (a warning names them once); none at all is InvalidArgument. The parameters'
  // grad() is empty afterwards, and must be empty before: InvalidArgument when backward() left
  // gradients there, which would not count. The loss is one of the own copy, as for
  // TorchModule::minimize().
  template <typename Net>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net) {
    minimize(loss, net, [](const std::vector<at::Tensor>&) {});
  }
  // Calls `adjust(parameters)` before the step, once for each copy of the parameters, whose grad()
  // are the sums over all replicas: torch::nn::utils::clip_grad_norm_(parameters, 1.0) limits the
  // gradient as one process would. Every copy must be adjusted alike.
  template <typename Net, typename F>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net, const F& adjust) {
    net.check_before_update();
    net.check_loss(loss);
    apply(internal::torch_gradients(loss, net.parameters(), net.variables()), net, adjust);
  }
  // One step along gradients that the program has computed, one for each of net.variables(), summed
  // over all replicas. Throws InvalidArgument for another number of them.
  template <typename Net>
  void apply_gradients(const Gradients& gradients, const TorchModule<Net>& net) {
    net.check_before_update();
    apply(gradients, net, [](const std::vector<at::Tensor>&) {});
  }
  // Number of steps made.
  Variable iterations() const { return updates_.iterations(); }

  // The number of steps and what torch's optimizer keeps: its state and its options, learning rate
  // included. The optimizer must outlive the checkpoint.
  operator Trackable() const {
    const Count count{updates_};
    return Checkpoint({{"iterations", count}, {"torch", torch_state()}});
  }

  // The own replica's; outside `run` the first, whose options the others get before the next
  // run. Its step() is not for users: it moves one copy alone.
  Optimizer& operator*() const { return own_copy(); }
  Optimizer* operator->() const { return &own_copy(); }
  // Calls `change(optimizer)` for each copy, as for new options. Outside `run`.
  template <typename F>
  void configure(const F& change) const {
    for (const auto& copy : state_->copies) change(*copy);
  }
  // Of all parameter groups, in all copies. Outside `run`.
  void set_learning_rate(double rate) const {
    configure([rate](Optimizer& copy) {
      for (auto& group : copy.param_groups()) group.options().set_lr(rate);
    });
  }

 private:
  // The variable is another one after the first step.
  struct Count {
    nn::NamedVariables named_variables() const { return {{"", updates.iterations()}}; }
    const internal::ExternalUpdates& updates;
  };
  struct State : internal::RunObserver {
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
    // To code outside `run`, which may keep a reference, as torch's schedulers do.
    std::atomic<bool> handed_out = false;
  };

  Optimizer& own_copy() const {
    if (!internal::current_component()) state_->handed_out = true;
    return *state_->copies[internal::own_torch_copy(state_->copies.size())];
  }
  template <typename Net, typename F>
  void apply(const Gradients& gradients, const TorchModule<Net>& net, const F& adjust);
  // That of the first copy, for all of them: copies step alike.
  Trackable torch_state() const;
  static void load(Optimizer& copy, const std::string& saved);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  internal::ExternalUpdates updates_;
};

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
  // Torch adds to the state that is there, and leaves the options alone.
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
