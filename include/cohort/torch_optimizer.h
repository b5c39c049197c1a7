#pragma once

// LibTorch's optimizers under a strategy. Not for inclusion by users: include cohort/torch.h.

#include <torch/torch.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/internal/foreign_updates.h"
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
      copies_.push_back(std::make_unique<Optimizer>(net.parameters(i), options...));
    }
  }

  // One step along the gradients of `loss`, summed over all replicas. Parameters without a gradient
  // stay as they are (a warning names them once); none at all is InvalidArgument. The parameters'
  // grad() is empty afterwards.
  template <typename Net>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net);
  // Number of steps made.
  Variable iterations() const { return updates_.iterations(); }

  // The number of steps and what torch's optimizer keeps: its state and its options, learning rate
  // included. The optimizer must outlive the checkpoint.
  operator Trackable() const {
    const Count count{updates_};
    return Checkpoint({{"iterations", count}, {"torch", torch_state()}});
  }

  // The own replica's; outside of `run` the first. A change of its options is that copy's alone:
  // configure() reaches all.
  Optimizer& operator*() const { return *copies_[own()]; }
  Optimizer* operator->() const { return copies_[own()].get(); }
  // Calls `change(optimizer)` for each copy, as for a new learning rate. Outside of `run`.
  template <typename F>
  void configure(const F& change) const {
    for (const auto& copy : copies_) change(*copy);
  }

 private:
  // The variable is another one after the first step.
  struct Count {
    nn::NamedVariables named_variables() const { return {{"", updates.iterations()}}; }
    const internal::ForeignUpdates& updates;
  };

  size_t own() const { return internal::own_torch_copy(copies_.size()); }
  // That of the first copy, for all of them: copies step alike.
  Trackable torch_state() const;
  static void load(Optimizer& copy, const std::string& saved);

  std::vector<std::unique_ptr<Optimizer>> copies_;
  internal::ForeignUpdates updates_;
};

template <typename Optimizer>
Trackable TorchOptimizer<Optimizer>::torch_state() const {
  return Trackable::bytes(
      [this] {
        std::ostringstream bytes;
        torch::save(*copies_[0], bytes);
        return bytes.str();
      },
      [this](const std::string& saved) {
        for (const auto& copy : copies_) load(*copy, saved);
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
template <typename Net>
void TorchOptimizer<Optimizer>::minimize(const at::Tensor& loss, const TorchModule<Net>& net) {
  const Gradients gradients = internal::torch_gradients(loss, net.parameters());
  updates_.apply(gradients, net.variables(), [&](const Gradients& sums) {
    const std::vector<at::Tensor>& parameters = net.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor(parameters[i]).mutable_grad() =
          sums[i].defined() ? at::Tensor(sums[i].dense()) : at::Tensor();
    }
    (**this).step();
    for (at::Tensor parameter : parameters) parameter.mutable_grad() = at::Tensor();
  });
}

}  // namespace cohort
