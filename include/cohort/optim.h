#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/formula.h"
#include "cohort/gradient.h"
#include "cohort/site.h"
#include "cohort/variable.h"

// Optimizers: how gradients change variables.

namespace cohort {
template <typename Net>
class TorchModule;
}

namespace cohort::optim {

// A learning rate that depends on the number of updates made so far (an int64 scalar).
using Schedule = std::function<Tensor(const Tensor& step)>;

// A number, or a schedule.
class LearningRate {
 public:
  LearningRate(double rate);
  LearningRate(Schedule schedule);
  Tensor at(const Tensor& step) const { return schedule_(step); }
  // The rate that never changes; nullopt for a schedule.
  std::optional<double> constant() const { return constant_; }

 private:
  Schedule schedule_;
  std::optional<double> constant_;
};

struct ExponentialDecayOptions {
  double initial_rate = 0.01;
  int64_t decay_steps = 1000;
  double decay_rate = 0.96;
  bool staircase = false;  // in jumps of decay_steps
};
// initial_rate * decay_rate ^ (step / decay_steps)
Schedule exponential_decay(const ExponentialDecayOptions& options, Site site = Site::here());

struct PolynomialDecayOptions {
  double initial_rate = 0.01;
  double end_rate = 0.0001;
  int64_t decay_steps = 1000;
  double power = 1;
};
// From initial_rate to end_rate in decay_steps, then constant.
Schedule polynomial_decay(const PolynomialDecayOptions& options, Site site = Site::here());

struct CosineDecayOptions {
  double initial_rate = 0.01;
  int64_t decay_steps = 1000;
  double alpha = 0;  // what remains at the end, as a share of initial_rate
};
Schedule cosine_decay(const CosineDecayOptions& options, Site site = Site::here());

// rates[i] up to and including step boundaries[i], the last rate afterwards. Boundaries increase.
Schedule piecewise_constant(std::vector<int64_t> boundaries, std::vector<double> rates,
                            Site site = Site::here());
// In even steps to the rate that `then` begins with: 1/steps of it for the first update, all of it
// for update number `steps`, which is the first that `then` counts.
Schedule warmup(int64_t steps, LearningRate then, Site site = Site::here());

// Limits on gradients, applied in this order; 0 = no limit.
struct Clipping {
  double value = 0;        // each element to [-value, value]
  double norm = 0;         // each gradient's L2 norm
  double global_norm = 0;  // the L2 norm of all gradients together
};

// Gradients with their limits applied; undefined ones stay undefined and sparse ones sparse, where
// rows named twice count with their sum. A limit that is not positive is InvalidArgument.
Gradients clip_by_value(const Gradients& gradients, double value);
Gradients clip_by_norm(const Gradients& gradients, double norm);
Gradients clip_by_global_norm(const Gradients& gradients, double norm);
Tensor global_norm(const Gradients& gradients);

namespace internal {
struct OptimizerAccess;
struct OptimizerState;
struct Rule;
}  // namespace internal

// Changes variables along their gradients and keeps what it needs for that in slot variables, which
// are named after theirs ("kernel/momentum") and made at the first update.
//
// A sparse gradient (IndexedSlices), as that of nn::Embedding, changes the rows that it names; rows
// named twice count once, with their sum. `lazy_rows` says whether other rows move as well. Use one
// optimizer from one thread at a time, or inside a strategy, which sums the gradients of all
// replicas first.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update. Variables whose gradient is undefined stay as they are (a warning names them once);
  // none at all, unequal numbers, and wrong shapes are InvalidArgument, and then nothing changes.
  // In a graph the update happens when the returned tensor is run.
  Tensor apply_gradients(const Gradients& gradients, const std::vector<Variable>& variables,
                         Site site = Site::here());

  // Runs `loss` under a tape and applies its gradients. Returns the loss.
  Tensor minimize(const std::function<Tensor()>& loss, const std::vector<Variable>& variables,
                  Site site = Site::here());
  // The same for a tensor of the graph being built: one update of the graph's trainable variables,
  // or of those given, for each run of the returned tensor. `step`, when given, is counted up.
  Tensor minimize(const Tensor& loss, const std::vector<Variable>& variables = {},
                  std::optional<Variable> step = std::nullopt, Site site = Site::here());
  // The same for a module of LibTorch, by torch's autograd. Defined in <cohort/torch.h>.
  template <typename Net>
  void minimize(const at::Tensor& loss, const TorchModule<Net>& net);

  // Number of updates made.
  Variable iterations() const;
  // The rate that the next update will use.
  Tensor learning_rate() const;
  void set_learning_rate(LearningRate rate);

  // The slot of that name for `variable`. Throws NotFound before the first update.
  Variable slot(const Variable& variable, const std::string& name) const;
  // Everything that a checkpoint must keep: iterations, then the slots in the order of their
  // making.
  std::vector<Variable> variables() const;

 protected:
  Optimizer(LearningRate rate, Clipping clipping, internal::Rule rule);

 private:
  friend struct internal::OptimizerAccess;
  std::unique_ptr<internal::OptimizerState> state_;
};

// Each optimizer has torch's formula, or TensorFlow's where `formula` asks for it. A default that
// differs stands as "torch's; TensorFlow's". In TensorFlow's formulas weight_decay shrinks the
// variable itself, by learning_rate * weight_decay of it before the update, and does not pass
// through the gradient.
//
// With lazy_rows a sparse gradient changes only the rows that it names, in the variable and in the
// slots, as torch.optim.SparseAdam does. Without it the gradient of all other rows is 0: they move
// by what past gradients left in the slots, and all weights decay. That is what Keras does, and
// torch with the dense gradient that torch.nn.Embedding has unless it is made with sparse=True.

struct SgdOptions {
  // With momentum, torch multiplies the sum of past gradients by the rate of this update.
  // TensorFlow adds up past updates, each with the rate that it had, in a slot named "velocity".
  Formula formula = Formula::Torch;
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;             // adds weight_decay * variable to the gradient
  std::optional<bool> lazy_rows = {};  // true; false
  Clipping clipping = {};
};
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
  // Shrinks the variable itself, not through the gradient.
  std::optional<double> weight_decay = {};  // 0.01; 0.004
  std::optional<bool> lazy_rows = {};       // true; false
  Clipping clipping = {};
};
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
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
};

struct RmsPropOptions {
  // torch divides by sqrt(mean square) + epsilon, TensorFlow by sqrt(mean square + epsilon), and
  // its momentum is that of Sgd.
  Formula formula = Formula::Torch;
  std::optional<LearningRate> learning_rate = {};  // 0.01; 0.001
  std::optional<double> rho = {};                  // 0.99; 0.9
  std::optional<double> epsilon = {};              // 1e-8; 1e-7
  double momentum = 0;
  bool centered = false;
  double weight_decay = 0;
  std::optional<bool> lazy_rows = {};  // true; false
  Clipping clipping = {};
};
class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const RmsPropOptions& options = {});
};

// TensorFlow's formula; torch has none. Rows are lazy, as in TensorFlow's own op for sparse
// gradients.
struct FtrlOptions {
  LearningRate learning_rate = 0.001;
  double learning_rate_power = -0.5;
  double initial_accumulator = 0.1;
  double l1 = 0;
  double l2 = 0;
  Clipping clipping = {};
};
class Ftrl : public Optimizer {
 public:
  explicit Ftrl(const FtrlOptions& options = {});
};

}  // namespace cohort::optim
