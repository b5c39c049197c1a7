#pragma once

#include "cohort/variable.h"

// Optimizers change variables along their gradients.

namespace cohort {
template <typename Net>
class TorchModule;

// Formula selects the formula and defaults of an optimizer or a layer, where torch and TensorFlow
// (Keras) use one name for different things. Options that are not set have the library's defaults.
enum class Formula { Torch, TensorFlow };

}  // namespace cohort

namespace cohort::optim {

// Schedule returns the learning rate after `step` updates, an int64 scalar. The functions that make
// schedules throw InvalidArgument unless their number of steps is positive.
using Schedule = std::function<Tensor(const Tensor& step)>;

// LearningRate is a number or a schedule. Throws InvalidArgument if the number is negative or not
// finite, or if the schedule is empty.
class LearningRate {
 public:
  LearningRate(double rate);
  LearningRate(Schedule schedule);
  Tensor at(const Tensor& step) const { return schedule_(step); }
  // Returns the number; nullopt for a schedule.
  std::optional<double> constant() const { return constant_; }

 private:
  Schedule schedule_;
  std::optional<double> constant_;
};

struct ExponentialDecayOptions {
  double initial_rate = 0.01;
  int64_t decay_steps = 1000;
  double decay_rate = 0.96;
  bool staircase = false;  // lower the rate only every decay_steps updates
};
// Returns the schedule initial_rate * decay_rate ^ (step / decay_steps).
Schedule exponential_decay(const ExponentialDecayOptions& options, Site site = Site::here());

struct PolynomialDecayOptions {
  double initial_rate = 0.01;
  double end_rate = 0.0001;
  int64_t decay_steps = 1000;
  double power = 1;
};
// Returns a schedule that goes from initial_rate to end_rate in decay_steps updates and stays
// there. A `power` of 1 gives a straight line.
Schedule polynomial_decay(const PolynomialDecayOptions& options, Site site = Site::here());

struct CosineDecayOptions {
  double initial_rate = 0.01;
  int64_t decay_steps = 1000;
  double alpha = 0;  // the final rate as a share of initial_rate
};
// Returns a schedule that goes from initial_rate to alpha * initial_rate along half a cosine wave
// in decay_steps updates and stays there.
Schedule cosine_decay(const CosineDecayOptions& options, Site site = Site::here());

// Returns a schedule that is rates[i] up to and including step boundaries[i], and the last rate
// afterwards. Throws InvalidArgument unless boundaries increase and are one fewer than the rates.
Schedule piecewise_constant(std::vector<int64_t> boundaries, std::vector<double> rates,
                            Site site = Site::here());
// Returns a schedule that rises in even steps to the first rate of `then`. The first update uses
// 1/steps of it. Update number `steps` uses all of it and is the first that `then` counts.
Schedule warmup(int64_t steps, LearningRate then, Site site = Site::here());

// Clipping limits gradients. The limits are applied in this order. Empty: no limit. A limit must be
// positive (InvalidArgument).
struct Clipping {
  std::optional<double> value = std::nullopt;  // each element is cut to [-value, value]
  std::optional<double> norm = std::nullopt;   // the largest L2 norm of each gradient
  // The largest L2 norm of all gradients together.
  std::optional<double> global_norm = std::nullopt;
};

// Return the gradients with one limit applied. Undefined gradients stay undefined and sparse
// gradients stay sparse; a row that a sparse gradient names twice counts with its sum. They throw
// InvalidArgument unless the limit is positive.
Gradients clip_by_value(const Gradients& gradients, double value, Site site = Site::here());
Gradients clip_by_norm(const Gradients& gradients, double norm, Site site = Site::here());
Gradients clip_by_global_norm(const Gradients& gradients, double norm, Site site = Site::here());
// Returns the L2 norm of all gradients together.
Tensor global_norm(const Gradients& gradients, Site site = Site::here());

// Optimizer is the base of all optimizers, which change variables along their gradients.
//
//   optim::Adam adam({.learning_rate = 0.01});
//   Tensor first_loss = adam.minimize([&] { return nn::softmax_cross_entropy(model(x), y); },
//                                     model.trainable_variables());
//
// An optimizer keeps state such as momentum in slot variables. A slot is named after its variable
// ("kernel/momentum") and made at the first update. A sparse gradient (IndexedSlices), such as that
// of nn::Embedding, changes the rows that it names; a row that is named twice changes once, by the
// sum. `lazy_rows` sets whether the other rows change as well.
//
// Use an optimizer from one thread at a time, or inside a strategy. A strategy sums the gradients
// of all replicas before the update.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Makes one update. A variable whose gradient is undefined stays as it is, and a warning names it
  // once. Throws InvalidArgument, and changes nothing, if no gradient is defined, if there are not
  // as many gradients as variables, or if a shape is wrong. In a graph the update happens when the
  // returned tensor is run.
  Tensor apply_gradients(const Gradients& gradients, const std::vector<Variable>& variables,
                         Site site = Site::here());

  // Runs `loss` under a tape and applies its gradients. Returns the loss.
  Tensor minimize(const std::function<Tensor()>& loss, const std::vector<Variable>& variables,
                  Site site = Site::here());
  // The same in a graph being built. Each run of the returned tensor updates `variables` once, or
  // the graph's trainable variables if none are given. If `step` is given, each run adds 1 to it.
  Tensor minimize(const Tensor& loss, const std::vector<Variable>& variables = {},
                  std::optional<Variable> step = std::nullopt, Site site = Site::here());
  // The same for a LibTorch module, with torch's autograd. Defined in <cohort/torch.h>.
  template <typename Net>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net);

  // The number of updates made.
  Variable iterations(Site site = Site::here()) const;
  // The rate of the next update.
  Tensor learning_rate(Site site = Site::here()) const;
  void set_learning_rate(LearningRate rate);

  // Returns the slot `name` of `variable`. Throws NotFound if the optimizer has no such slot, or
  // before the first update.
  Variable slot(const Variable& variable, const std::string& name) const;
  // Returns what a checkpoint must keep: iterations, then the slots in the order of their creation.
  std::vector<Variable> variables() const;

 protected:
  Optimizer(LearningRate rate, Clipping clipping, internal::Rule rule);

 private:
  friend struct internal::OptimizerAccess;
  cohort::internal::Owned<internal::OptimizerState> state_;
};

// Each optimizer computes torch's formula by default, and TensorFlow's if `formula` is
// Formula::TensorFlow. Where their defaults differ, a comment gives both: "torch's; TensorFlow's".
//
// weight_decay adds weight_decay * variable to the gradient in torch's formulas. In TensorFlow's
// formulas it bypasses the gradient: before the update, the variable shrinks by learning_rate *
// weight_decay of its value.
//
// With lazy_rows, a sparse gradient changes only the rows that it names, in the variable and in the
// slots, as torch.optim.SparseAdam does. Without lazy_rows, the gradient of the other rows is 0:
// past gradients in the slots still move them, and all weights decay. Keras does the same, and so
// does torch unless torch.nn.Embedding is made with sparse=True.

struct SgdOptions {
  // With momentum, torch multiplies the sum of past gradients by the rate of this update.
  // TensorFlow adds up past updates, each with the rate of its time, in a slot named "velocity".
  Formula formula = Formula::Torch;
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  std::optional<bool> lazy_rows = {};  // true; false
  Clipping clipping = {};
};
// Sgd is stochastic gradient descent, with optional momentum.
class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options = {});
};

struct AdamOptions {
  // TensorFlow adds epsilon before it corrects the bias of the second moment.
  Formula formula = Formula::Torch;
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  std::optional<double> epsilon = {};  // 1e-8; 1e-7
  double weight_decay = 0;
  std::optional<bool> lazy_rows = {};  // true; false
  Clipping clipping = {};
};
// Adam scales each step by moving averages of the gradient and of its square.
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

struct AdamWOptions {
  Formula formula = Formula::Torch;  // as for Adam
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  std::optional<double> epsilon = {};  // 1e-8; 1e-7
  // With either formula, weight decay shrinks the variable itself and bypasses the gradient.
  std::optional<double> weight_decay = {};  // 0.01; 0.004
  std::optional<bool> lazy_rows = {};       // true; false
  Clipping clipping = {};
};
// AdamW is Adam with weight decay that bypasses the gradient.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

struct AdagradOptions {
  // torch divides by sqrt(accumulator) + epsilon, TensorFlow by sqrt(accumulator + epsilon).
  Formula formula = Formula::Torch;
  std::optional<LearningRate> learning_rate = {};  // 0.01; 0.001
  std::optional<double> initial_accumulator = {};  // 0; 0.1
  std::optional<double> epsilon = {};              // 1e-10; 1e-7
  double weight_decay = 0;
  std::optional<bool> lazy_rows = {};  // true; false
  Clipping clipping = {};
};
// Adagrad divides each step by the root of the sum of all past squared gradients.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
};

struct RmsPropOptions {
  // torch divides by sqrt(mean square) + epsilon, TensorFlow by sqrt(mean square + epsilon). Their
  // momentum differs as in Sgd.
  Formula formula = Formula::Torch;
  std::optional<LearningRate> learning_rate = {};  // 0.01; 0.001
  std::optional<double> rho = {};                  // 0.99; 0.9
  std::optional<double> epsilon = {};              // 1e-8; 1e-7
  double momentum = 0;
  bool centered = false;  // divide by the standard deviation of the gradient instead
  double weight_decay = 0;
  std::optional<bool> lazy_rows = {};  // true; false
  Clipping clipping = {};
};
// RmsProp divides each step by the root of a moving average of squared gradients.
class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const RmsPropOptions& options = {});
};

struct FtrlOptions {
  LearningRate learning_rate = 0.001;
  double learning_rate_power = -0.5;
  double initial_accumulator = 0.1;
  double l1 = 0;
  double l2 = 0;
  Clipping clipping = {};
};
// Ftrl follows the regularized leader. It has TensorFlow's formula; torch has none. A sparse
// gradient changes only the rows that it names, as in TensorFlow's op.
class Ftrl : public Optimizer {
 public:
  explicit Ftrl(const FtrlOptions& options = {});
};

}  // namespace cohort::optim
