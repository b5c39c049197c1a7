#pragma once

// Gradients from torch's autograd. Users include cohort/torch.h instead.

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "cohort/error.h"
#include "cohort/gradient.h"
#include "cohort/internal/backward_span.h"
#include "cohort/internal/gradient_listener.h"
#include "cohort/internal/torch_tensors.h"
#include "cohort/internal/torch_writes.h"
#include "cohort/variable.h"

namespace cohort::internal {

inline Gradient to_gradient(const at::Tensor& gradient) {
  if (!gradient.defined()) return {};
  if (!gradient.is_sparse()) return Tensor(gradient);
  const at::Tensor rows = gradient.coalesce();
  return IndexedSlices{Tensor(rows.values()), Tensor(rows.indices()[0]), Shape(gradient.sizes())};
}

inline void check_loss(const at::Tensor& loss) {
  if (loss.defined() && loss.numel() == 1) return;
  throw Error(Code::InvalidArgument,
              "[minimize] the loss is " +
                  (loss.defined() ? "of shape " + Shape(loss.sizes()).to_string()
                                  : std::string("an undefined tensor")) +
                  ", but minimize() needs one number; reduce the loss with sum() or mean()");
}

// Calls `visit` with each tensor in which autograd would leave a gradient of the loss, until
// `visit` returns false.
template <typename F>
void visit_leaves(const at::Tensor& loss, const F& visit) {
  const torch::autograd::Edge root = torch::autograd::impl::gradient_edge(loss);
  std::vector<torch::autograd::Node*> open{root.function.get()};
  std::unordered_set<const torch::autograd::Node*> seen{root.function.get()};
  while (!open.empty()) {
    torch::autograd::Node* const node = open.back();
    open.pop_back();
    const auto& edges = node->next_edges();
    const auto* leaf =
        edges.empty() ? dynamic_cast<const torch::autograd::AccumulateGrad*>(node) : nullptr;
    if (leaf != nullptr && !visit(leaf->variable)) return;
    for (const torch::autograd::Edge& edge : edges) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) {
        open.push_back(edge.function.get());
      }
    }
  }
}

[[noreturn]] inline void throw_loss_of_other_copy(const std::string& parameter, size_t own,
                                                  size_t other) {
  throw Error(Code::FailedPrecondition,
              "[minimize] the loss of local replica " + std::to_string(own) + " depends on '" +
                  parameter + "' of local replica " + std::to_string(other) +
                  "'s copy of the module, and that gradient would be lost: each replica computes "
                  "its loss with its own copy. Call net->forward(x) inside run(), where net-> is "
                  "the own copy, and not by a reference to *net or a part of it that was taken "
                  "outside; call detach() on what is meant as a constant");
}

[[noreturn]] inline void throw_loss_of_no_parameter(size_t parameters) {
  throw Error(Code::InvalidArgument,
              "[minimize] the loss requires a gradient, but depends on none of the " +
                  std::to_string(parameters) +
                  " parameters of the module's own copy, so its gradient would be lost. Call "
                  "net->forward(x) inside run(), on the module that minimize() is given; where a "
                  "replica has nothing to learn from, give it loss.detach()");
}

// Throws FailedPrecondition if the loss was computed with another copy of the module than the own,
// and InvalidArgument if it was computed with no copy, because its gradient, or a part of it, would
// be lost.
inline void require_loss_of_copy(const at::Tensor& loss, const SharedTensors& parameters,
                                 size_t own) {
  const std::vector<at::Tensor>& learning = parameters.of_copy(own);
  const auto learns = [](const at::Tensor& parameter) { return parameter.requires_grad(); };
  if (!loss.defined() || !loss.requires_grad()) return;
  if (std::none_of(learning.begin(), learning.end(), learns)) return;
  bool found = false;
  visit_leaves(loss, [&](const at::Tensor& leaf) {
    const auto place = parameters.find(leaf);
    if (place && place->copy != own) {
      const std::string& name = parameters.variables()[place->variable].name();
      throw_loss_of_other_copy(name, own, place->copy);
    }
    found = found || place;
    return !found || parameters.num_copies() > 1;
  });
  if (!found) throw_loss_of_no_parameter(learning.size());
}

// Returns the indices of the parameters for which `loss` may have a gradient. A frozen parameter
// has none.
inline std::vector<size_t> learning_now(const at::Tensor& loss,
                                        const std::vector<at::Tensor>& parameters) {
  std::vector<size_t> places;
  for (size_t i = 0; loss.requires_grad() && i < parameters.size(); ++i) {
    if (parameters[i].requires_grad()) places.push_back(i);
  }
  return places;
}

inline std::vector<at::Tensor> tensors_at(const std::vector<at::Tensor>& all,
                                          const std::vector<size_t>& places) {
  std::vector<at::Tensor> chosen;
  for (const size_t place : places) chosen.push_back(all[place]);
  return chosen;
}

// Throws InvalidArgument if the loss is not one number, or if backward() left gradients in the
// parameters, because those would not count.
inline void check_update(const at::Tensor& loss, const std::vector<at::Tensor>& parameters,
                         const std::vector<Variable>& variables) {
  check_loss(loss);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].grad().defined()) continue;
    throw Error(Code::InvalidArgument,
                "[minimize] parameter '" + variables[i].name() +
                    "' has a gradient already, which backward() left there and minimize() would "
                    "not use: it computes the gradients of its loss itself, and adds them up over "
                    "the replicas. Leave backward() out; limit the sums with .clipping or a "
                    "function given to TorchOptimizer::minimize(); give gradients of several "
                    "losses to apply_gradients(); call net->zero_grad(true) to drop this one");
  }
}

// While it lives, the sums are the parameters' gradients. A parameter without a sum has no
// gradient.
class [[nodiscard]] GradientsInPlace {
 public:
  GradientsInPlace(const std::vector<at::Tensor>& parameters, const Gradients& sums)
      : parameters_(parameters) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters_[i].mutable_grad() =
          sums[i].defined() ? at::Tensor(sums[i].dense()) : at::Tensor();
    }
  }
  ~GradientsInPlace() {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  }
  GradientsInPlace(const GradientsInPlace&) = delete;
  GradientsInPlace& operator=(const GradientsInPlace&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
};

// Computes one gradient per parameter with torch's autograd. The gradient is undefined for
// parameters that are frozen or do not contribute to the loss. Frees the autograd graph of the
// loss. Throws InvalidArgument if the loss is not one number, or if a parameter already has a
// gradient.
inline Gradients torch_gradients(const at::Tensor& loss, const std::vector<at::Tensor>& parameters,
                                 const std::vector<Variable>& variables) {
  check_update(loss, parameters, variables);
  const BackwardSpan span;
  Gradients gradients(parameters.size());
  const std::vector<size_t> learning = learning_now(loss, parameters);
  if (learning.empty()) return gradients;
  const auto found = torch::autograd::grad({loss}, tensors_at(parameters, learning), {},
                                           /*retain_graph=*/false, /*create_graph=*/false,
                                           /*allow_unused=*/true);
  for (size_t k = 0; k < learning.size(); ++k) gradients[learning[k]] = to_gradient(found[k]);
  return gradients;
}

// AnnouncedBackward runs a backward pass and calls a listener with each parameter's gradient as
// soon as torch's autograd has it. The parameters' grad() is empty before and afterwards.
class AnnouncedBackward {
 public:
  AnnouncedBackward(GradientListener& listener, const at::Tensor& loss,
                    const std::vector<at::Tensor>& parameters)
      : listener_(listener),
        loss_(loss),
        places_(learning_now(loss, parameters)),
        learning_(tensors_at(parameters, places_)),
        gradients_(parameters.size()) {
    for (size_t k = 0; k < learning_.size(); ++k) {
      const auto accumulator = torch::autograd::impl::grad_accumulator(learning_[k]);
      keys_.push_back(accumulator->add_post_hook(std::make_unique<Hook>(*this, k)));
      accumulators_.push_back(accumulator);
    }
  }
  ~AnnouncedBackward() {
    for (size_t k = 0; k < learning_.size(); ++k) {
      accumulators_[k]->del_post_hook(keys_[k]);
      learning_[k].mutable_grad() = at::Tensor();
    }
  }
  AnnouncedBackward(const AnnouncedBackward&) = delete;
  AnnouncedBackward& operator=(const AnnouncedBackward&) = delete;

  Gradients run() {
    if (!learning_.empty()) {
      const OwnBackward own;
      torch::autograd::backward({loss_}, {}, /*retain_graph=*/false, /*create_graph=*/false,
                                learning_);
    }
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

  void announce(size_t k) {
    Gradient& gradient = gradients_[places_[k]];
    gradient = to_gradient(learning_[k].grad());
    listener_.ready(places_[k], gradient);
  }

  GradientListener& listener_;
  const at::Tensor loss_;
  const std::vector<size_t> places_;  // indices of the parameters that learn
  std::vector<at::Tensor> learning_;
  Gradients gradients_;  // by parameter
  std::vector<GradAccumulator> accumulators_;
  std::vector<uintptr_t> keys_;
};

// Like torch_gradients(), but a listener of the gradients of `variables` gets them one by one.
// Listeners are called for a loss on a CPU only: on other devices, a gradient may not be complete
// when autograd continues.
inline Gradients announced_gradients(const at::Tensor& loss,
                                     const std::vector<at::Tensor>& parameters,
                                     const std::vector<Variable>& variables) {
  GradientListener* const listener =
      loss.defined() && loss.is_cpu() ? find_gradient_listener(variables) : nullptr;
  if (listener == nullptr) return torch_gradients(loss, parameters, variables);
  check_update(loss, parameters, variables);
  listener->begin(variables);
  const BackwardSpan span;
  return AnnouncedBackward(*listener, loss, parameters).run();
}

}  // namespace cohort::internal
