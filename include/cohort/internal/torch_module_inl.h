#pragma once

// Definitions of TorchModule. Users include cohort/torch.h instead.

#include <ATen/SequenceNumber.h>

#include "cohort/internal/backward_span.h"
#include "cohort/internal/torch_conversions.h"
#include "cohort/internal/torch_copies.h"
#include "cohort/internal/torch_gradients.h"
#include "cohort/internal/torch_random.h"
#include "cohort/internal/torch_state.h"
#include "cohort/torch.h"

namespace cohort {

template <typename Net>
size_t TorchModule<Net>::own() const {
  return internal::own_torch_copy(num_copies());
}

template <typename Net>
Net& TorchModule<Net>::own_copy() const {
  settle_outside();
  Net& used = copy(own());
  internal::note_module_use(at::sequence_number::peek());
  return used;
}

template <typename Net>
void TorchModule<Net>::settle_outside() const {
  if (!internal::current_component()) state_->settle();
}

template <typename Net>
void TorchModule<Net>::check_before_update() const {
  // With several replicas, each run checks this.
  if (!state_->several_replicas) state_->parts.require_unchanged();
  state_->require_no_other_writes(own());
  state_->require_frozen(own());
}

template <typename Net>
void TorchModule<Net>::check_loss(const at::Tensor& loss) const {
  internal::require_loss_of_copy(loss, state_->parameters, own());
}

template <typename Net>
const std::vector<at::Tensor>& TorchModule<Net>::parameters(size_t replica) const {
  if (replica >= num_copies()) internal::throw_no_component(replica, num_copies());
  settle_outside();
  state_->parameters.follow(replica);
  return state_->parameters.of_copy(replica);
}

template <typename Net>
nn::NamedVariables TorchModule<Net>::named_variables() const {
  settle_outside();
  nn::NamedVariables named;
  for (const internal::SharedTensors* kind : state_->kinds()) {
    for (const Variable& variable : kind->variables()) {
      named.emplace_back(variable.name(), variable);
    }
  }
  return named;
}

template <typename Net>
const std::vector<Variable>& TorchModule<Net>::variables() const {
  return state_->parameters.variables();
}

template <typename Net>
const std::vector<Variable>& TorchModule<Net>::buffers() const {
  settle_outside();
  return state_->buffers.variables();
}

template <typename Net>
Net& TorchModule<Net>::copy(size_t replica) const {
  if (replica >= num_copies()) internal::throw_no_component(replica, num_copies());
  state_->follow(replica);
  return *copies_[replica];
}

template <typename Net>
template <typename... Args>
TorchModule<Net>::TorchModule(const TorchModuleOptions& options, const Args&... args) {
  state_ = std::make_shared<internal::TorchState>(internal::copies_for_this_scope());
  const auto make = [&] { return std::make_shared<Net>(args...); };
  // All copies draw the same numbers, also for members that are not registered, and the state of
  // the generator afterwards does not depend on the number of replicas.
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
  for (size_t i = 0; i < copies_.size(); ++i) copy(i);  // gives the copy the variables' values
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
