#pragma once

// LibTorch's optimizers under a strategy. Not for inclusion by users: include cohort/torch.h.

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "cohort/internal/foreign_updates.h"
#include "cohort/torch_module.h"

namespace cohort {

// One of torch's own optimizers under a strategy: TorchOptimizer<torch::optim::Adam> adam(net,
// torch::optim::AdamOptions(1e-3)), one for each copy of the module. The strategy's guards watch
// over its updates.
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
  size_t own() const { return internal::own_torch_copy(copies_.size()); }

  std::vector<std::unique_ptr<Optimizer>> copies_;
  internal::ForeignUpdates updates_;
};

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
