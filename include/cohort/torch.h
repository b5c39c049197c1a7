#pragma once

// Cohort and LibTorch in one program. Include this header first, before `using namespace cohort`:
// torch's headers have names (Tensor, data) that would clash with it.
//
// A Tensor converts to an at::Tensor, and back, without a copy. An at::Tensor made so keeps torch's
// autograd history if the Tensor came from torch; treat it as read-only, because other tensors may
// share its memory. An at::Tensor that became a Tensor must not be written to afterwards. Symbolic
// and string tensors throw.

#include <torch/torch.h>  // IWYU pragma: export

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "cohort/cohort.h"  // IWYU pragma: export
#include "cohort/internal/external_updates.h"

namespace cohort {

// Options of TorchModule.
struct TorchModuleOptions {
  // If true, batch norms (torch::nn::BatchNorm1d, 2d and 3d) in training mode inside `run`
  // normalize with the mean and variance of the examples of all replicas, as one process with the
  // whole batch does. All replicas must run the batch norms, and their backward passes, in the same
  // order. The constructor throws InvalidArgument if the module has no batch norm.
  bool sync_batch_norm = false;
};

// TorchModule holds one copy of a torch module for each replica of the strategy in whose scope it
// is made. `net->forward(x)` uses the replica's own copy inside `run`, and the first copy outside.
//
//   TorchModule<torch::nn::LinearImpl> net(784, 10);
//   optim::Sgd optimizer({.learning_rate = 0.1});
//   strategy.run([&](at::Tensor x, at::Tensor y) {
//     const at::Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
//     optimizer.minimize(loss / strategy.num_replicas_in_sync(), net);
//   }, x, y);
//
// The copies start equal. Making them advances torch's generator as the first copy alone would.
//
// Parameters and buffers are also Cohort variables, which share their memory: a value read from
// such a variable changes with it. Parameters stay equal because every replica makes the same
// update. With several replicas, on one worker or more, any other write to a parameter (step() of a
// torch optimizer, a function in place) is detected before the next update, at the end of the run,
// or at the next use of the module: FailedPrecondition names the parameter and the call to make
// instead.
//
// Each replica writes its own buffers, such as a batch norm's statistics. At the end of each `run`,
// all replicas of all workers get the mean of the floating buffers that were written, and the first
// replica's value of the other written buffers. Therefore all workers must call run() of a strategy
// that has a module with buffers, in evaluation, too. Forward passes outside `run` do not change a
// norm's statistics. A change of another buffer there, and replacing, adding or removing a part of
// the module anywhere, throws FailedPrecondition.
//
// What is set outside `run` (eval(), train(), requires_grad) applies to all copies from the next
// run on.
template <typename Net>
class TorchModule {
  static_assert(std::derived_from<Net, torch::nn::Module>);

 public:
  // Makes each copy with these arguments, which are therefore never moved from. Each copy draws the
  // same numbers from torch's generator: on all workers those that the first worker draws, but a
  // restarted worker draws its own, which are the same after the same torch::manual_seed(). If the
  // arguments contain parts of the module (torch::nn::SequentialImpl), the first copy is cloned;
  // throws InvalidArgument if it cannot be cloned. Throws FailedPrecondition inside `run`, where
  // each replica would make another module, and if variables are not in this process's memory: in
  // the scope of a ParameterServerStrategy, and in a graph.
  template <typename... Args>
  explicit TorchModule(const Args&... args) : TorchModule(TorchModuleOptions(), args...) {}
  template <typename... Args>
  explicit TorchModule(const TorchModuleOptions& options, const Args&... args);

  Net* operator->() const { return &own_copy(); }
  Net& operator*() const { return own_copy(); }
  // The copy of a local replica, with the current values of its variables. Throws InvalidArgument
  // if the replica does not exist.
  Net& copy(size_t replica) const;
  size_t num_copies() const { return copies_.size(); }

  // The parameters that learn, in torch's order. A parameter that several parts share appears once.
  // Parameters that are frozen when the module is made never learn: an update throws
  // FailedPrecondition if one of them has requires_grad.
  const std::vector<Variable>& variables() const;
  const std::vector<Variable>& buffers() const;
  // All parameters, including frozen ones, and all buffers, by torch's names. A Checkpoint of the
  // module keeps them.
  nn::NamedVariables named_variables() const;
  // The tensors of a copy that learn, in the order of variables(). Without an argument: those of
  // the own copy.
  const std::vector<at::Tensor>& parameters(size_t replica) const;
  const std::vector<at::Tensor>& parameters() const { return parameters(own()); }

  // Makes one update along the gradients of `loss`, summed over all replicas. The same as
  // optimizer.minimize(loss, net). Each replica computes its loss with its own copy, by `net->`
  // inside `run`. Throws FailedPrecondition if the loss depends on another replica's copy, as
  // through a reference to `*net` that was taken outside `run`. Throws InvalidArgument if the loss
  // requires a gradient and depends on no parameter of the own copy.
  void minimize(const at::Tensor& loss, optim::Optimizer& optimizer) const;

  // Calls `change(copy)`, which may write parameters and buffers: new initial values, limits on
  // weights, a moving average of another module, load(). Outside `run`, `change` gets the first
  // copy, and all copies on all workers then get the values of the first worker's first copy. An
  // exception on one worker is thrown on all workers. Inside `run`, each replica must make the same
  // change of its own copy, in place; throws FailedPrecondition there if the strategy keeps one set
  // of parameters for all replicas (CentralStorageStrategy).
  template <typename F>
  void configure(const F& change) const;

 private:
  template <typename Optimizer>
  friend class TorchOptimizer;

  size_t own() const;
  Net& own_copy() const;
  void settle_outside() const;
  void check_before_update() const;
  void check_loss(const at::Tensor& loss) const;
  void make_variables();
  void collect_tensors(const Net& copy);

  std::vector<std::shared_ptr<Net>> copies_;
  std::shared_ptr<internal::TorchState> state_;
};

// TorchOptimizer runs one of torch's own optimizers under a strategy, one instance for each copy of
// the module. The strategy's guards check its updates. A Checkpoint saves it like a module:
// {"optimizer", adam}.
//
//   TorchModule<torch::nn::LinearImpl> net(784, 10);
//   TorchOptimizer<torch::optim::Adam> adam(net, torch::optim::AdamOptions(1e-3));
//   strategy.run([&](at::Tensor x) { adam.minimize(net->forward(x).square().mean(), net); }, x);
template <typename Optimizer>
class TorchOptimizer {
 public:
  // Without options, torch's defaults apply if the optimizer has defaults.
  template <typename Net, typename... Options>
  explicit TorchOptimizer(const TorchModule<Net>& net, const Options&... options);

  // Makes one step along the gradients of `loss`, summed over all replicas. Parameters without a
  // gradient stay as they are, and a warning names them once. Throws InvalidArgument if no
  // parameter has a gradient, or if backward() left gradients in the parameters' grad(), because
  // those would not count. grad() is empty afterwards. The loss must be computed with the own copy,
  // as for TorchModule::minimize().
  template <typename Net>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net) {
    minimize(loss, net, [](const std::vector<at::Tensor>&) {});
  }
  // Calls `adjust(parameters)` before the step, once for each copy of the parameters. The
  // parameters' grad() are then the sums over all replicas, so that
  // torch::nn::utils::clip_grad_norm_(parameters, 1.0) limits the gradient as one process would.
  // Every copy must be adjusted in the same way.
  template <typename Net, typename F>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net, const F& adjust);
  // Makes one step along gradients that the program has computed, one for each of net.variables(),
  // summed over all replicas. Throws InvalidArgument if their number is different.
  template <typename Net>
  void apply_gradients(const Gradients& gradients, const TorchModule<Net>& net);
  // The number of steps made.
  Variable iterations() const { return updates_.iterations(); }

  // The number of steps, and the state and options of torch's optimizer, including the learning
  // rate. The optimizer must outlive the checkpoint.
  operator Trackable() const;

  // The own replica's instance. Outside `run` this is the first instance, whose options the others
  // get before the next run. Do not call step() on it, because that moves one copy alone.
  Optimizer& operator*() const { return own_copy(); }
  Optimizer* operator->() const { return &own_copy(); }
  // Calls `change(optimizer)` for each instance, for example to set options. Only outside `run`.
  template <typename F>
  void configure(const F& change) const;
  // Sets the rate of all parameter groups in all instances. Only outside `run`.
  void set_learning_rate(double rate) const;

 private:
  struct Count;
  struct State;

  Optimizer& own_copy() const;
  template <typename Net, typename F>
  void apply(const Gradients& gradients, const TorchModule<Net>& net, const F& adjust);
  // The state of the first copy stands for all copies, because they make the same steps.
  Trackable torch_state() const;
  static void load(Optimizer& copy, const std::string& saved);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  internal::ExternalUpdates updates_;
};

}  // namespace cohort

#include "cohort/internal/torch_module_inl.h"     // IWYU pragma: export
#include "cohort/internal/torch_optimizer_inl.h"  // IWYU pragma: export
