#pragma once

// LibTorch's modules under a strategy. Not for inclusion by users: include cohort/torch.h.

#include <torch/torch.h>

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "cohort/internal/torch_copies.h"
#include "cohort/internal/torch_gradients.h"
#include "cohort/internal/torch_tensors.h"
#include "cohort/nn_layers.h"
#include "cohort/optim.h"
#include "cohort/strategy.h"

namespace cohort {

// A torch module, one copy for each replica of the strategy in whose scope it is made; the copies
// start equal. `net->forward(x)` uses the own replica's copy, and outside of `run` the first.
//
// Parameters and buffers are also Cohort variables, with which they share their memory: whoever
// changes one has changed the other, and a value read from such a variable changes with it.
// Parameters stay equal because every replica makes the same update; floating buffers (a batch
// norm's statistics) may differ and count with their mean, others with the first replica's value.
// Where a strategy keeps one copy of each variable, the first replica's buffers count.
//
// What is set outside of `run` holds for all copies: net->eval(), net->train(), and parameters that
// are frozen (requires_grad) after the module was made.
template <typename Net>
class TorchModule {
  static_assert(std::derived_from<Net, torch::nn::Module>);

 public:
  // Each copy is made with these arguments, which are therefore never moved from. Where they bring
  // parts of the module with them (torch::nn::SequentialImpl), the first copy is cloned; throws
  // InvalidArgument when it cannot be. Throws FailedPrecondition inside of `run`, where every
  // replica would make a module of its own, and where variables are not in this process's memory:
  // in the scope of a ParameterServerStrategy, and in a graph.
  template <typename... Args>
  explicit TorchModule(const Args&... args);

  Net* operator->() const { return &own_copy(); }
  Net& operator*() const { return own_copy(); }
  // The copy of a local replica, with the values that its variables have now. Throws
  // InvalidArgument.
  Net& copy(size_t replica) const {
    if (replica >= num_copies()) internal::throw_no_component(replica, num_copies());
    for (const internal::SharedTensors* kind : {&parameters_, &frozen_, &buffers_}) {
      kind->follow(replica);
    }
    return *copies_[replica];
  }
  size_t num_copies() const { return copies_.size(); }

  // The parameters that learn, in torch's order; one that several parts share comes once. Those
  // that are frozen when the module is made never learn.
  const std::vector<Variable>& variables() const { return parameters_.variables(); }
  const std::vector<Variable>& buffers() const { return buffers_.variables(); }
  // All of them and the frozen parameters, by torch's names: what a Checkpoint of the module keeps.
  nn::NamedVariables named_variables() const {
    nn::NamedVariables named;
    for (const internal::SharedTensors* kind : {&parameters_, &frozen_, &buffers_}) {
      for (const Variable& variable : kind->variables()) {
        named.emplace_back(variable.name(), variable);
      }
    }
    return named;
  }
  // The tensors of a copy that learn, in the order of variables(); of the own copy.
  const std::vector<at::Tensor>& parameters(size_t replica) const {
    if (replica >= num_copies()) internal::throw_no_component(replica, num_copies());
    parameters_.follow(replica);
    return parameters_.of_copy(replica);
  }
  const std::vector<at::Tensor>& parameters() const { return parameters(own()); }

  // One update along the gradients of `loss`, summed over all replicas: optimizer.minimize(loss,
  // net) in other words.
  void minimize(const at::Tensor& loss, optim::Optimizer& optimizer) const;

 private:
  size_t own() const { return internal::own_torch_copy(num_copies()); }
  Net& own_copy() const {
    if (internal::current_component()) {
      modes_->spread(copies_);
    } else {
      modes_->handed_out();
    }
    return copy(own());
  }
  void make_variables();
  void collect_tensors(const Net& copy);

  std::vector<std::shared_ptr<Net>> copies_;
  internal::SharedTensors parameters_{/*replicas_write=*/false};
  internal::SharedTensors frozen_{/*replicas_write=*/false};
  internal::SharedTensors buffers_{/*replicas_write=*/true};
  std::shared_ptr<internal::TorchModes> modes_ = std::make_shared<internal::TorchModes>();
};

template <typename Net>
template <typename... Args>
TorchModule<Net>::TorchModule(const Args&... args) {
  copies_.resize(internal::copies_for_this_scope());
  for (auto& copy : copies_) {
    copy = std::make_shared<Net>(args...);
    if (copy != copies_[0]) copy = internal::apart_from(copies_[0], copy);
  }
  make_variables();
  for (const auto& copy : copies_) collect_tensors(*copy);
  for (size_t i = 0; i < copies_.size(); ++i) copy(i);  // gives it the variables' values
}

template <typename Net>
void TorchModule<Net>::make_variables() {
  for (const auto& [name, value] : internal::each_once(copies_[0]->named_parameters())) {
    const bool learns = value.requires_grad();
    (learns ? parameters_ : frozen_)
        .add_variable(
            Variable(Tensor(value.detach().clone()), {.name = name, .trainable = learns}));
  }
  for (const auto& [name, value] : internal::each_once(copies_[0]->named_buffers())) {
    buffers_.add_variable(Variable(Tensor(value.clone()), internal::buffer_options(name, value)));
  }
}

template <typename Net>
void TorchModule<Net>::collect_tensors(const Net& copy) {
  std::vector<at::Tensor> learning;
  std::vector<at::Tensor> frozen;
  std::vector<at::Tensor> buffers;
  for (const auto& [name, value] : internal::each_once(copy.named_parameters())) {
    (value.requires_grad() ? learning : frozen).push_back(value);
  }
  for (const auto& [name, value] : internal::each_once(copy.named_buffers())) {
    buffers.push_back(value);
  }
  parameters_.add_copy(std::move(learning));
  frozen_.add_copy(std::move(frozen));
  buffers_.add_copy(std::move(buffers));
}

template <typename Net>
void TorchModule<Net>::minimize(const at::Tensor& loss, optim::Optimizer& optimizer) const {
  const Gradients gradients = internal::announced_gradients(loss, parameters(), variables());
  parameters_.release_values(own());
  const Status status = capture_status([&] { optimizer.apply_gradients(gradients, variables()); });
  parameters_.take_values(own());
  throw_if_error(status);
}

namespace optim {
template <typename Net>
void Optimizer::minimize(const at::Tensor& loss, const TorchModule<Net>& net) {
  net.minimize(loss, *this);
}
}  // namespace optim

}  // namespace cohort
