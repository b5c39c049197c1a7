#pragma once

// LibTorch's modules and optimizers under a strategy. Not for inclusion by users: include
// cohort/torch.h.

#include <torch/torch.h>

#include <algorithm>
#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "cohort/internal/gradient_listener.h"
#include "cohort/internal/held_value.h"
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
template <typename Net>
class TorchModule {
  static_assert(std::derived_from<Net, torch::nn::Module>);

 public:
  // Each copy is made with these arguments, which are therefore never moved from. Throws
  // FailedPrecondition inside of `run`: every replica would make a module of its own.
  template <typename... Args>
  explicit TorchModule(const Args&... args);

  Net* operator->() const { return &copy(own()); }
  Net& operator*() const { return copy(own()); }
  // The copy of a local replica, with the values that its variables have now.
  Net& copy(size_t replica) const {
    Net& net = *copies_.at(replica);
    parameters_.follow(replica);
    buffers_.follow(replica);
    return net;
  }
  size_t num_copies() const { return copies_.size(); }

  // The parameters that learn, in torch's order.
  const std::vector<Variable>& variables() const { return parameters_.variables; }
  const std::vector<Variable>& buffers() const { return buffers_.variables; }
  // Both, by torch's names: what a Checkpoint of the module keeps.
  nn::NamedVariables named_variables() const {
    nn::NamedVariables named;
    for (const Variable& variable : variables()) named.emplace_back(variable.name(), variable);
    for (const Variable& buffer : buffers()) named.emplace_back(buffer.name(), buffer);
    return named;
  }
  // The own copy's tensors, in the order of variables().
  const std::vector<at::Tensor>& parameters() const {
    parameters_.follow(own());
    return parameters_.tensors[own()];
  }

  // One update along the gradients of `loss`, summed over all replicas: optimizer.minimize(loss,
  // net) in other words.
  void minimize(const at::Tensor& loss, optim::Optimizer& optimizer) const;

 private:
  // Tensors of the copies, and the variables that they are.
  struct Shared {
    std::vector<Variable> variables;
    std::vector<std::vector<Variable>> components;  // of each variable, by replica
    std::vector<std::vector<at::Tensor>> tensors;   // of each copy, by variable

    void add(const Variable& variable) {
      variables.push_back(variable);
      components.push_back(get_strategy().local_results(variable));
    }
    // Gives each copy memory of its own: copies begin with what the first one has, and torch writes
    // into it.
    void separate() const {
      for (const std::vector<Variable>& copies : components) {
        for (Variable copy : copies) {
          copy.assign(Tensor(at::Tensor(copy.read_value()).clone()));
        }
      }
    }
    // Makes the tensors of a copy those of the variables.
    void take_values(size_t copy) const {
      for (size_t i = 0; i < variables.size(); ++i) {
        const auto& own = components[i];
        const Tensor value = own[std::min(copy, own.size() - 1)].read_value();
        at::Tensor(tensors[copy][i]).set_data(at::Tensor(value));
      }
    }
    // The same for variables that were given another value since, by assign() or a checkpoint. Who
    // gave it may hold it still, and torch writes into what it has: it gets memory of its own.
    void follow(size_t copy) const {
      for (size_t i = 0; i < variables.size(); ++i) {
        const auto& own = components[i];
        const Variable& component = own[std::min(copy, own.size() - 1)];
        const Tensor held = internal::held_value(component);
        if (!held.defined()) continue;
        at::Tensor value = held;
        if (value.data_ptr() == tensors[copy][i].data_ptr()) continue;
        if (own.size() == tensors.size()) {  // else the copies share one value
          value = value.clone();
          internal::set_held_value(component, Tensor(value));
        }
        at::Tensor(tensors[copy][i]).set_data(value);
      }
    }
    // Leaves the memory to the variables alone, which can then be changed in place.
    void release_values(size_t copy) const {
      for (at::Tensor tensor : tensors[copy]) tensor.set_data(torch::empty({0}, tensor.options()));
    }
  };

  size_t own() const { return internal::current_component().value_or(0); }

  std::vector<std::shared_ptr<Net>> copies_;
  Shared parameters_;
  Shared buffers_;
};

// One of torch's own optimizers under a strategy: TorchOptimizer<torch::optim::Adam> adam(net,
// torch::optim::AdamOptions(1e-3)), one for each copy of the module.
template <typename Optimizer>
class TorchOptimizer {
 public:
  template <typename Net, typename Options>
  TorchOptimizer(const TorchModule<Net>& net, const Options& options) {
    for (size_t i = 0; i < net.num_copies(); ++i) {
      copies_.push_back(std::make_unique<Optimizer>(net.copy(i).parameters(), options));
    }
  }

  // One step along the gradients of `loss`, summed over all replicas.
  template <typename Net>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net);
  // The own replica's.
  Optimizer& operator*() const { return *copies_.at(internal::current_component().value_or(0)); }

 private:
  std::vector<std::unique_ptr<Optimizer>> copies_;
};

namespace internal {

// One replica's worth of copies, or as many as the strategy has replicas here.
inline size_t copies_for_this_scope() {
  if (!has_strategy()) return 1;
  if (in_cross_replica_context()) return get_strategy().extended().worker_devices().size();
  throw Error(Code::FailedPrecondition,
              "[TorchModule] made inside of run(), where every replica would make its own; make it "
              "in the strategy's scope, before the run");
}

// A sum of floating values is their mean over the replicas; a count is the first replica's.
inline VariableOptions buffer_options(const std::string& name, const at::Tensor& value) {
  return {.name = name,
          .trainable = false,
          .synchronization = VariableSynchronization::OnRead,
          .aggregation = value.is_floating_point() ? VariableAggregation::Mean
                                                   : VariableAggregation::OnlyFirstReplica};
}

inline Gradient to_gradient(const at::Tensor& gradient) {
  if (!gradient.defined()) return {};
  if (!gradient.is_sparse()) return Tensor(gradient);
  const at::Tensor rows = gradient.coalesce();
  return IndexedSlices{Tensor(rows.values()), Tensor(rows.indices()[0]), Shape(gradient.sizes())};
}

// By torch's autograd: one per parameter, undefined for those that had no part in the loss. Frees
// what autograd kept of it.
inline Gradients torch_gradients(const at::Tensor& loss,
                                 const std::vector<at::Tensor>& parameters) {
  Gradients gradients;
  for (const at::Tensor& gradient :
       torch::autograd::grad({loss}, parameters, {}, /*retain_graph=*/false,
                             /*create_graph=*/false, /*allow_unused=*/true)) {
    gradients.push_back(to_gradient(gradient));
  }
  return gradients;
}

// During a backward pass, tells a listener of each parameter's gradient as soon as torch's autograd
// has it. What the parameters' grad() was before is there again afterwards.
class AnnouncedBackward {
 public:
  AnnouncedBackward(GradientListener& listener, const std::vector<at::Tensor>& parameters)
      : listener_(listener), parameters_(parameters), gradients_(parameters.size()) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      before_.push_back(parameters_[i].grad());
      at::Tensor(parameters_[i]).mutable_grad() = at::Tensor();
      const auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[i]);
      keys_.push_back(accumulator->add_post_hook(std::make_unique<Hook>(*this, i)));
      accumulators_.push_back(accumulator);
    }
  }
  ~AnnouncedBackward() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      accumulators_[i]->del_post_hook(keys_[i]);
      at::Tensor(parameters_[i]).mutable_grad() = before_[i];
    }
  }
  AnnouncedBackward(const AnnouncedBackward&) = delete;
  AnnouncedBackward& operator=(const AnnouncedBackward&) = delete;

  Gradients run(const at::Tensor& loss) {
    torch::autograd::backward({loss}, {}, /*retain_graph=*/false, /*create_graph=*/false,
                              parameters_);
    for (size_t i = 0; i < gradients_.size(); ++i) {
      if (!gradients_[i].defined()) listener_.ready(i, {});
    }
    return gradients_;
  }

 private:
  class Hook : public torch::autograd::FunctionPostHook {
   public:
    Hook(AnnouncedBackward& pass, size_t index) : pass_(pass), index_(index) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      pass_.announce(index_);
      return outputs;
    }

   private:
    AnnouncedBackward& pass_;
    const size_t index_;
  };

  void announce(size_t index) {
    gradients_[index] = to_gradient(parameters_[index].grad());
    listener_.ready(index, gradients_[index]);
  }

  GradientListener& listener_;
  const std::vector<at::Tensor>& parameters_;
  Gradients gradients_;
  std::vector<at::Tensor> before_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::vector<uintptr_t> keys_;
};

// The same as torch_gradients, which whoever listens to the gradients of `variables` is told of one
// by one. On a CPU only: elsewhere a gradient may not be there yet when autograd goes on.
inline Gradients announced_gradients(const at::Tensor& loss,
                                     const std::vector<at::Tensor>& parameters,
                                     const std::vector<Variable>& variables) {
  GradientListener* const listener = loss.is_cpu() ? find_gradient_listener(variables) : nullptr;
  if (listener == nullptr) return torch_gradients(loss, parameters);
  listener->begin(variables);
  return AnnouncedBackward(*listener, parameters).run(loss);
}

// Over all replicas; one that is undefined everywhere stays so.
inline std::vector<at::Tensor> sum_over_replicas(const Gradients& own,
                                                 const std::vector<at::Tensor>& parameters) {
  std::vector<Tensor> values;
  std::vector<float> defined;
  for (size_t i = 0; i < own.size(); ++i) {
    defined.push_back(own[i].defined());
    values.push_back(own[i].defined() ? own[i].dense() : Tensor(torch::zeros_like(parameters[i])));
  }
  values.push_back(Tensor::from(defined));
  values = get_replica_context()->all_reduce(ReduceOp::Sum, values);
  const std::vector<float> counts = values.back().to_vector<float>();
  std::vector<at::Tensor> sums;
  for (size_t i = 0; i < own.size(); ++i) {
    sums.push_back(counts[i] > 0 ? at::Tensor(values[i]) : at::Tensor());
  }
  return sums;
}

}  // namespace internal

template <typename Net>
template <typename... Args>
TorchModule<Net>::TorchModule(const Args&... args) {
  copies_.resize(internal::copies_for_this_scope());
  for (auto& copy : copies_) copy = std::make_shared<Net>(args...);
  for (const auto& item : copies_[0]->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    parameters_.add(Variable(Tensor(item.value().detach()), {.name = item.key()}));
  }
  for (const auto& item : copies_[0]->named_buffers()) {
    const VariableOptions options = internal::buffer_options(item.key(), item.value());
    buffers_.add(Variable(Tensor(item.value()), options));
  }
  parameters_.separate();
  buffers_.separate();
  for (size_t i = 0; i < copies_.size(); ++i) {
    auto& learning = parameters_.tensors.emplace_back();
    for (const at::Tensor& tensor : copies_[i]->parameters()) {
      if (tensor.requires_grad()) learning.push_back(tensor);
    }
    buffers_.tensors.push_back(copies_[i]->buffers());
    parameters_.take_values(i);
    buffers_.take_values(i);
  }
}

template <typename Net>
void TorchModule<Net>::minimize(const at::Tensor& loss, optim::Optimizer& optimizer) const {
  const Gradients gradients = internal::announced_gradients(loss, parameters(), variables());
  parameters_.release_values(own());
  const Status status = capture_status([&] { optimizer.apply_gradients(gradients, variables()); });
  parameters_.take_values(own());
  throw_if_error(status);
}

template <typename Optimizer>
template <typename Net>
void TorchOptimizer<Optimizer>::minimize(const at::Tensor& loss, const TorchModule<Net>& net) {
  const std::vector<at::Tensor>& parameters = net.parameters();
  const Gradients own = internal::torch_gradients(loss, parameters);
  const std::vector<at::Tensor> sums = internal::sum_over_replicas(own, parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor(parameters[i]).mutable_grad() = sums[i];
  }
  (**this).step();
}

namespace optim {
template <typename Net>
void Optimizer::minimize(const at::Tensor& loss, const TorchModule<Net>& net) {
  net.minimize(loss, *this);
}
}  // namespace optim

}  // namespace cohort
