#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/data.h"
#include "cohort/internal/trained_model.h"
#include "cohort/metrics.h"
#include "cohort/nn.h"
#include "cohort/optim.h"
#include "cohort/strategy.h"

// A training loop for people: fit, evaluate, predict, the same under every strategy.

namespace cohort {

class Trainer;
namespace internal {
class TrainerImpl;
}

// Figures by name: {"loss", 0.25}, {"accuracy", 0.9}; those of the validation begin with "val_".
using Logs = std::map<std::string, double>;

// Where the time of steps went, in seconds, as the first replica sees it. Where workers run steps
// on their own, as this process sees it: waiting for them is `compute`.
struct StepTimes {
  double input = 0;    // waiting for the next batch
  double compute = 0;  // loss, gradients
  double update = 0;   // the others' gradients, waiting for them included, and the optimizer
  double total() const { return input + compute + update; }
};

// How far fit() is.
struct TrainingProgress {
  int epoch = 0;  // the running one, from 1 on
  int epochs = 0;
  int64_t step = 0;                                       // since the beginning, all epochs
  int64_t step_of_epoch = 0;                              // steps made in this epoch
  std::optional<int64_t> steps_per_epoch = std::nullopt;  // where that is known
  int64_t examples = 0;                                   // of this epoch
  StepTimes times = {};                                   // of this epoch
};

// Something that happens around the steps of fit(), called in the order in which they were given,
// outside replicas, on every worker that runs the program. The figures are those of the chief on
// all workers. When a callback of one worker throws, fit() ends on all: with its error there, with
// Cancelled, which names it, on the others. What a callback keeps from step to step survives a
// restart with FitOptions::backup when save() and restore() turn it into bytes and back.
class Callback {
 public:
  virtual ~Callback() = default;
  // Also when it goes on from a backup, after restore(); an epoch that had begun then does not
  // begin again.
  virtual void on_fit_begin(Trainer& /*trainer*/) {}
  virtual void on_epoch_begin(Trainer& /*trainer*/) {}
  // Once for FitOptions::steps_per_execution steps.
  virtual void on_step_end(Trainer& /*trainer*/, const Logs& /*so_far*/) {}
  virtual void on_epoch_end(Trainer& /*trainer*/, const Logs& /*logs*/) {}
  virtual void on_fit_end(Trainer& /*trainer*/) {}
  virtual std::string save() const { return {}; }
  virtual void restore(const std::string& /*saved*/) {}
};
using Callbacks = std::vector<std::shared_ptr<Callback>>;

// A loss of one batch, from outputs, labels and options: nn::softmax_cross_entropy and its like, or
// a function of one's own, which then divides by options.global_batch_size.
class LossFunction {
 public:
  template <typename F>
  requires(std::is_invocable_r_v<Tensor, F, Tensor, Tensor, nn::LossOptions>) LossFunction(F f)
      : call_(std::move(f)) {}
  LossFunction(Tensor (*f)(const Tensor&, const Tensor&, nn::LossOptions, Site))
      : call_([f](const Tensor& outputs, const Tensor& labels, const nn::LossOptions& options) {
          return f(outputs, labels, options, Site::here());
        }) {}

  Tensor operator()(const Tensor& outputs, const Tensor& labels,
                    const nn::LossOptions& options) const {
    return call_(outputs, labels, options);
  }

 private:
  std::function<Tensor(const Tensor&, const Tensor&, const nn::LossOptions&)> call_;
};

struct TrainerOptions {
  // Figures over labels and outputs, besides the loss:
  // std::make_shared<metrics::SparseCategoricalAccuracy>("accuracy").
  std::vector<internal::MeasuredMetric> metrics = {};
  // Between batches as the dataset gives them and the model: [](Tensor x) { return x / 255; }.
  std::function<Tensor(const Tensor&)> input = nullptr;
};

struct FitOptions {
  int epochs = 1;
  // This many steps make an epoch, and the next one goes on in the data where it ended; data that
  // ends begins anew. For data without end. 0: an epoch is once through the data.
  int64_t steps_per_epoch = 0;
  // How many steps pass between two calls of on_step_end(); the end of an epoch calls it, too.
  // Workers exchange stop(), signals and failures of callbacks only then, so that short steps cost
  // less. The steps themselves do not change: TensorFlow makes this many steps in one call of a
  // traced function, while here each step is a call of its own, which takes one batch. So a larger
  // number saves callbacks and exchanges, not calls. `backup_steps` counts single steps all the
  // same. evaluate() and predict() do not have the setting, and there is no "auto".
  int64_t steps_per_execution = 1;
  std::optional<data::Dataset> validation = std::nullopt;  // evaluated after each epoch
  Callbacks callbacks = {};
  // A directory, which all workers see, for what is needed to go on after a crash: the state is
  // saved there after each epoch and, when not 0, each `backup_steps`; fit() begins with what it
  // finds there. Where other tasks are left when one is lost, they wait until it is started again,
  // and all go on from the last backup. The undisturbed run would have given the same: give
  // shuffles a seed. While fit() runs, other runs are kept from the directory: theirs is
  // FailedPrecondition, which names the host, the process and the run that has it. SIGTERM and
  // SIGINT, unless the program handles them, have all workers save after the running step; then
  // those that got the signal end by it. During the validation they end after the running batch:
  // the state is saved before the validation, which the next start makes again. A second SIGINT, or
  // a SIGTERM 2 s later, ends a worker without saving. A model whose layers learn the sizes of
  // their inputs from their first call is called on the first batch of the dataset before the first
  // step, so that its variables can be saved and restored. Empty: none.
  std::string backup = {};
  int64_t backup_steps = 0;
  // A line on standard output, on the chief only, that says how far it is, how well it does, how
  // much time is left and where the time goes. Under `cohort run` the launcher shows it while an
  // epoch goes on.
  bool progress = true;
};

struct History {
  std::vector<Logs> epochs = {};  // of each epoch, those before a restart included
};

// Trains a model with the strategy in whose scope it is made, as the model is:
//
//   MirroredStrategy strategy({"CPU:0", "CPU:1"});
//   auto scope = strategy.scope();
//   nn::Sequential model{nn::Dense(784, 128), nn::relu, nn::Dense(128, 10)};
//   optim::Adam optimizer;
//   Trainer trainer(model, nn::softmax_cross_entropy, optimizer);
//   trainer.fit(dataset.shuffle(10'000).batch(256), {.epochs = 5});
//
// Datasets give batches of (inputs, labels) of the global size. Means count every example once,
// also where the last batch is short. The optimizer must outlive it. Use it from one thread.
//
// With a ParameterServerStrategy it is for the chief alone (see serve_task()) and a coordinator of
// its own has the workers make the steps: each of them takes a whole batch, which comes with the
// step, and does not wait for the others.
class Trainer {
 public:
  // Throws FailedPrecondition in a task that only serves.
  template <std::derived_from<nn::Module> Model>
  Trainer(const Model& model, LossFunction loss, optim::Optimizer& optimizer,
          const TrainerOptions& options = {})
      : Trainer(internal::TrainedModel(model), std::move(loss), optimizer, options) {}
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Throws InvalidArgument for elements that are not pairs, for datasets without an element and for
  // workers whose options differ, and what callbacks throw. Data without end is InvalidArgument for
  // evaluate() and predict(). A dataset that shuffles has another order in each epoch of each call,
  // whichever Trainer makes it; a training that goes on from a backup continues the orders it had.
  History fit(const data::Dataset& dataset, const FitOptions& options = {});
  // "loss" and the metrics, over everything, with layers in evaluation mode.
  Logs evaluate(const data::Dataset& dataset);
  // The model's outputs, one after the other; labels are not looked at and may be missing. In the
  // dataset's order, unless several workers share it.
  Tensor predict(const data::Dataset& dataset);

  // For callbacks.
  const TrainingProgress& progress() const;
  // fit() ends after the steps that run, with the running epoch's figures so far. When one of
  // several workers calls it, all end after the same step. Any thread may call it.
  void stop();
  // Whether this is the worker that writes files and speaks.
  bool is_chief() const;
  // Everything that training changes: "model", "optimizer".
  Checkpoint checkpoint() const;
  // All variables of the model, those that do not learn included.
  std::vector<Variable> variables() const;
  optim::Optimizer& optimizer() const;
  Strategy& strategy() const;

 private:
  Trainer(const internal::TrainedModel& model, LossFunction loss, optim::Optimizer& optimizer,
          const TrainerOptions& options);

  std::unique_ptr<internal::TrainerImpl> impl_;
};

}  // namespace cohort
