#pragma once

// LibTorch's modules under a strategy. Not for inclusion by users: include cohort/torch.h.

#include <torch/torch.h>

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "cohort/internal/torch_copies.h"
#include "cohort/internal/torch_gradients.h"
#include "cohort/internal/torch_random.h"
#include "cohort/internal/torch_state.h"
#include "cohort/nn_layers.h"
#include "cohort/optim.h"
#include "cohort/strategy.h"

namespace cohort {

struct TorchModuleOptions {
  // In training mode inside `run`, batch norms (torch::nn::BatchNorm1d, 2d and 3d) normalize with
  // the mean and variance of the examples of all replicas, as one process with the whole batch
  // does. All replicas must run them, and go backward, in the same order. Throws InvalidArgument
  // for a module without a batch norm.
  bool sync_batch_norm = false;
};

// A torch module, one copy for each replica of the strategy in whose scope it is made; the copies
// start equal, and torch's generator goes on as after the first alone. `net->forward(x)` uses the
// own replica's copy, and outside `run` the first.
//
// Parameters and buffers are also Cohort variables, with which they share their memory: a value
// read from such a variable changes with it. Parameters stay equal because every replica makes the
// same update. With several replicas, on one worker or more, whatever else writes a parameter (a
// torch optimizer's step(), a function in place) is found before the next update, at the end of the
// run, or when the module is used next: FailedPrecondition names the parameter and the call to make
// instead.
//
// Each replica writes its own buffers (a batch norm's statistics). At the end of each `run` all
// replicas of all workers get the mean of floating buffers that were written, and the first
// replica's value of the others. For that, the workers meet at the end of each run of a strategy
// that has a module with buffers, in evaluation, too: all of them must call run(). What forward
// passes outside `run` write to a norm's statistics is undone; a change of another buffer there
// is FailedPrecondition.
//
// The parameters and buffers are those that the constructor of `Net` registers, for good. Where one
// is replaced, added or removed later (replace_module(), register_module()), the next run, update
// or use outside `run` is FailedPrecondition.
//
// What is set outside `run` holds for all copies from the next run on: net->eval(),
// net->train(), and parameters that are frozen (requires_grad) after the module was made, by way of
// `net` or of a reference to its parts.
template <typename Net>
class TorchModule {
  static_assert(std::derived_from<Net, torch::nn::Module>);

 public:
  // Each copy is made with these arguments, which are therefore never moved from, and draws the
  // same numbers from torch's generator, on all workers those of the first; a worker that was
  // started again draws its own, which are the same after the same torch::manual_seed(). Where the
  // arguments bring parts of the module with them (torch::nn::SequentialImpl), the first copy is
  // cloned; throws InvalidArgument when it cannot be. Throws FailedPrecondition inside `run`,
  // where each replica would make another module, and where variables are not in this process's
  // memory: in the scope of a ParameterServerStrategy, and in a graph.
  template <typename... Args>
  explicit TorchModule(const Args&... args) : TorchModule(TorchModuleOptions(), args...) {}
  template <typename... Args>
  explicit TorchModule(const TorchModuleOptions& options, const Args&... args);

  Net* operator->() const { return &own_copy(); }
  Net& operator*() const { return own_copy(); }
  // The copy of a local replica, with the values that its variables have now. Throws
  // InvalidArgument.
  Net& copy(size_t replica) const {
    if (replica >= num_copies()) internal::throw_no_component(replica, num_copies());
    state_->follow(replica);
    return *copies_[replica];
  }
  size_t num_copies() const { return copies_.size(); }

  // The parameters that learn, in torch's order; one that several parts share comes once. Those
  // that are frozen when the module is made never learn: an update is FailedPrecondition while one
  // of them has requires_grad.
  const std::vector<Variable>& variables() const { return state_->parameters.variables(); }
  const std::vector<Variable>& buffers() const {
    settle_outside();
    return state_->buffers.variables();
  }
  // All of them and the frozen parameters, by torch's names: what a Checkpoint of the module keeps.
  nn::NamedVariables named_variables() const {
    settle_outside();
    nn::NamedVariables named;
    for (const internal::SharedTensors* kind : state_->kinds()) {
      for (const Variable& variable : kind->variables()) {
        named.emplace_back(variable.name(), variable);
      }
    }
    return named;
  }
  // The tensors of a copy that learn, in the order of variables(); of the own copy.
  const std::vector<at::Tensor>& parameters(size_t replica) const {
    if (replica >= num_copies()) internal::throw_no_component(replica, num_copies());
    settle_outside();
    state_->parameters.follow(replica);
    return state_->parameters.of_copy(replica);
  }
  const std::vector<at::Tensor>& parameters() const { return parameters(own()); }

  // One update along the gradients of `loss`, summed over all replicas: optimizer.minimize(loss,
  // net) in other words. Each replica computes its loss with its own copy, by `net->` inside `run`.
  // Throws FailedPrecondition for a loss that depends on another replica's copy, as by a reference
  // to `*net` that was taken outside, and InvalidArgument for one that requires a gradient and
  // depends on no parameter of the own.
  void minimize(const at::Tensor& loss, optim::Optimizer& optimizer) const;

  // Lets `change(copy)` write parameters and buffers: new initial values, limits on weights, a
  // moving average of another module, load(). Outside `run` it gets the first copy, and all
  // copies get the values that it has then; of several workers, those of the first. What it throws
  // on one worker is thrown on all. Inside `run` each replica must make the same change of its own
  // copy, in place; throws FailedPrecondition there where a strategy keeps one set of parameters
  // for all replicas (CentralStorageStrategy).
  template <typename F>
  void configure(const F& change) const;

 private:
  template <typename Optimizer>
  friend class TorchOptimizer;

  size_t own() const { return internal::own_torch_copy(num_copies()); }
  Net& own_copy() const {
    settle_outside();
    return copy(own());
  }
  void settle_outside() const {
    if (!internal::current_component()) state_->settle();
  }
  void check_before_update() const {
    // With several replicas, each run looks.
    if (!state_->several_replicas) state_->parts.require_unchanged();
    state_->require_no_other_writes(own());
    state_->require_frozen(own());
  }
  void check_loss(const at::Tensor& loss) const {
    internal::require_loss_of_copy(loss, state_->parameters, own());
  }
  void make_variables();
  void collect_tensors(const Net& copy);

  std::vector<std::shared_ptr<Net>> copies_;
  std::shared_ptr<internal::TorchState> state_;
};

template <typename Net>
template <typename... Args>
TorchModule<Net>::TorchModule(const TorchModuleOptions& options, const Args&... args) {
  state_ = std::make_shared<internal::TorchState>(internal::copies_for_this_scope());
  const auto make = [&] { return std::make_shared<Net>(args...); };
  // All copies draw the same, also for members that are not registered, and the number of replicas
  // does not show afterwards.
  const std::string start = internal::common_torch_random(state_->strategy.extended());
  const bool own_start = start == internal::torch_random_state();
  copies_.push_back(own_start ? make() : internal::made_aside(start, make));
  while (num_copies() < state_->copies) {
    copies_.push_back(internal::apart_from(copies_[0], internal::made_aside(start, make)));
  }
  make_variables();
  for (const auto& copy : copies_) {
    collect_tensors(*copy);
    state_->modes.add_copy(*copy);
    state_->parts.add_copy(copy);
  }
  for (size_t i = 0; i < copies_.size(); ++i) copy(i);  // gives it the variables' values
  for (size_t i = 0; options.sync_batch_norm && i < copies_.size(); ++i) {
    state_->synced_norms.emplace_back(*copies_[i]);
  }
  if (state_->several_replicas) internal::observe_runs(state_->strategy, state_);
}

template <typename Net>
void TorchModule<Net>::make_variables() {
  for (const auto& [name, value] : internal::each_once(copies_[0]->named_parameters())) {
    const bool learns = value.requires_grad();
    (learns ? state_->parameters : state_->frozen)
        .add_variable(
            Variable(Tensor(value.detach().clone()), {.name = name, .trainable = learns}));
  }
  for (const auto& [name, value] : internal::each_once(copies_[0]->named_buffers())) {
    state_->buffers.add_variable(Variable(Tensor(value.clone()), internal::buffer_options(name)));
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
  state_->parameters.add_copy(std::move(learning));
  state_->frozen.add_copy(std::move(frozen));
  state_->buffers.add_copy(std::move(buffers));
}

template <typename Net>
void TorchModule<Net>::minimize(const at::Tensor& loss, optim::Optimizer& optimizer) const {
  check_before_update();
  check_loss(loss);
  state_->meet_before_first_update(own());
  const Gradients gradients = internal::announced_gradients(loss, parameters(), variables());
  state_->parameters.release_values(own());
  const Status status = capture_status([&] { optimizer.apply_gradients(gradients, variables()); });
  state_->parameters.take_values(own());
  throw_if_error(status);
}

template <typename Net>
template <typename F>
void TorchModule<Net>::configure(const F& change) const {
  Net& own_net = **this;
  const torch::NoGradGuard unrecorded;
  if (internal::current_component()) {
    state_->require_own_memory();
    state_->require_no_other_writes(own());
    change(own_net);
    state_->parts.require_unchanged();
    for (internal::SharedTensors* kind : state_->kinds()) {
      kind->require_same_memory(own());
      kind->note_writes(own());
    }
    return;
  }
  StrategyExtended& extended = state_->strategy.extended();
  internal::on_each_worker(extended, "TorchModule::configure", [&] {
    change(own_net);
    state_->parts.require_unchanged();
  });
  for (internal::SharedTensors* kind : state_->kinds()) kind->spread_first_copy(extended);
}

namespace optim {
template <typename Net>
void Optimizer::minimize(const at::Tensor& loss, const TorchModule<Net>& net) {
  net.minimize(loss, *this);
}
}  // namespace optim

}  // namespace cohort
