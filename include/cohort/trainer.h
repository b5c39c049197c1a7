#pragma once

#include <map>

#include "cohort/checkpoint.h"
#include "cohort/internal/trained_model.h"
#include "cohort/metrics.h"
#include "cohort/strategy.h"

// A high-level training loop: fit, evaluate and predict, the same under every strategy.

namespace cohort {

class Trainer;
// Figures by name: {"loss", 0.25}, {"accuracy", 0.9}. Names of validation figures begin with
// "val_".
using Logs = std::map<std::string, double>;

// StepTimes says where the time of steps went, on the first replica. If the workers run
// steps independently (ParameterServerStrategy), the times are those of this process: `compute`
// includes waiting for the workers.
struct StepTimes {
  std::chrono::nanoseconds input{0};    // waiting for the next batch
  std::chrono::nanoseconds compute{0};  // loss, gradients
  // The others' gradients, including waiting for them, and the optimizer.
  std::chrono::nanoseconds update{0};
  std::chrono::nanoseconds total() const { return input + compute + update; }
};

// TrainingProgress says how far fit() is.
struct TrainingProgress {
  int epoch = 0;  // the running epoch; the first is 1
  int epochs = 0;
  int64_t step = 0;                                       // since the beginning, over all epochs
  int64_t step_of_epoch = 0;                              // steps done in this epoch
  std::optional<int64_t> steps_per_epoch = std::nullopt;  // if that is known
  int64_t examples = 0;                                   // of this epoch
  StepTimes times = {};                                   // of this epoch
};

// Callback reacts to the events of fit(). fit() calls its callbacks in the order of
// FitOptions::callbacks, outside replicas, on every worker that runs the program, with the chief's
// figures on all workers. If a callback throws on one worker, fit() ends on all workers: with the
// callback's error on that worker, with Cancelled, which names the error, on the others. With
// FitOptions::backup, save() and restore() carry what a callback keeps across a restart, as bytes.
//
//   class PrintLoss : public Callback {
//     void on_epoch_end(Trainer& trainer, const Logs& logs) override {
//       if (trainer.is_chief()) std::cout << logs.at("loss") << '\n';
//     }
//   };
class Callback {
 public:
  virtual ~Callback() = default;
  // Called when fit() begins, and, after restore(), when it resumes from a backup. An epoch that
  // had begun before the backup does not call on_epoch_begin() again.
  virtual void on_fit_begin(Trainer& /*trainer*/) {}
  virtual void on_epoch_begin(Trainer& /*trainer*/) {}
  // Called once for every FitOptions::steps_per_execution steps.
  virtual void on_step_end(Trainer& /*trainer*/, const Logs& /*so_far*/) {}
  virtual void on_epoch_end(Trainer& /*trainer*/, const Logs& /*logs*/) {}
  virtual void on_fit_end(Trainer& /*trainer*/) {}
  virtual std::string save() const { return {}; }
  virtual void restore(const std::string& /*saved*/) {}
};
using Callbacks = std::vector<std::shared_ptr<Callback>>;

// LossFunction computes the loss of one batch from outputs, labels and options. It is made from
// nn::softmax_cross_entropy and the other losses of nn, or from a user's function, which must
// divide by options.global_batch_size.
class LossFunction {
 public:
  template <typename F>
  requires(std::is_invocable_r_v<Tensor, F, Tensor, Tensor, nn::LossOptions>) LossFunction(F f)
      : call_(std::move(f)) {}
  LossFunction(Tensor (*f)(const Tensor&, const Tensor&, nn::LossOptions, Site),
               Site site = Site::here());

  Tensor operator()(const Tensor& outputs, const Tensor& labels,
                    const nn::LossOptions& options) const {
    return call_(outputs, labels, options);
  }

 private:
  std::function<Tensor(const Tensor&, const Tensor&, const nn::LossOptions&)> call_;
};

// Options of Trainer.
struct TrainerOptions {
  // Figures over labels and outputs besides the loss:
  // std::make_shared<metrics::SparseCategoricalAccuracy>("accuracy").
  std::vector<internal::MeasuredMetric> metrics = {};
  // Called on the inputs of each batch before the model: [](Tensor x) { return x / 255; }.
  std::function<Tensor(const Tensor&)> input = nullptr;
};

// Options of Trainer::fit.
struct FitOptions {
  int epochs = 1;
  // Number of steps in an epoch. The next epoch continues in the data where this one ended, and
  // data that ends begins again. Needed for endless data. Empty: an epoch is one pass over the
  // data.
  std::optional<int64_t> steps_per_epoch = std::nullopt;
  // How many steps pass between two calls of on_step_end(). The end of an epoch calls it, too.
  // Workers exchange stop() and failures of callbacks only then, so that a larger number makes
  // short steps cheaper; with `backup` they exchange signals about twice a second, too. Each step
  // remains a call of its own, which takes one batch, whereas TensorFlow makes this many steps in
  // one call of a traced function. `backup_steps` counts single steps. evaluate() and predict() do
  // not have the setting, and there is no "auto".
  int64_t steps_per_execution = 1;
  std::optional<data::Dataset> validation = std::nullopt;  // evaluated after each epoch
  Callbacks callbacks = {};
  // A directory that all workers see, for backups from which training resumes after a crash. Empty:
  // no backups. fit() saves its state there after each epoch and, if `backup_steps` is given, every
  // `backup_steps` steps, and begins with the state that it finds there. If one task is lost, the
  // others wait until it is started again, and all resume from the last backup. The result is that
  // of an undisturbed run if shuffles have a seed. While fit() runs, another run that uses the
  // directory throws FailedPrecondition, which names the host, process and run that holds it.
  //
  // SIGTERM and SIGINT make all workers save after the running step, unless the program handles
  // these signals; then the workers that got the signal end by it. A second SIGINT, or a SIGTERM 2
  // s later, ends a worker without saving. docs/fault_tolerance.md says more about signals.
  //
  // If layers learn the sizes of their inputs from their first call, fit() calls the model on the
  // first batch of the dataset before the first step, so that the variables can be saved and
  // restored.
  std::string backup = {};
  std::optional<int64_t> backup_steps = std::nullopt;
  // Whether the chief shows a line on standard output with the progress, the figures, the time that
  // is left and where the time goes. Under `cohort run` the launcher shows the line during an
  // epoch.
  bool progress = true;
};

// What Trainer::fit returns.
struct History {
  std::vector<Logs> epochs = {};  // one per epoch, including those before a restart
};

// Trainer trains a model under the strategy in whose scope the Trainer is made:
//
//   MirroredStrategy strategy({"CPU:0", "CPU:1"});
//   auto scope = strategy.scope();
//   nn::Sequential model{nn::Dense(784, 128), nn::relu, nn::Dense(128, 10)};
//   optim::Adam optimizer;
//   Trainer trainer(model, nn::softmax_cross_entropy, optimizer);
//   trainer.fit(dataset.shuffle(10'000).batch(256), {.epochs = 5});
//
// Datasets must deliver batches of (inputs, labels) of the global size. Means count every example
// once, even if the last batch is short. The optimizer must outlive the Trainer. A Trainer must be
// used from one thread.
//
// With a ParameterServerStrategy, only the chief makes a Trainer (see serve_task()). The Trainer's
// own coordinator then schedules the steps on the workers. Each worker gets a whole batch with the
// step and does not wait for the other workers.
class Trainer {
 public:
  // Throws FailedPrecondition in a task that only serves.
  template <std::derived_from<nn::Module> Model>
  Trainer(const Model& model, LossFunction loss, optim::Optimizer& optimizer,
          const TrainerOptions& options = {}, Site site = Site::here())
      : Trainer(internal::TrainedModel(model), std::move(loss), optimizer, options, site) {}
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains for the given number of epochs. Throws InvalidArgument if elements are not pairs, if the
  // dataset is empty or if the workers' options differ, and rethrows what callbacks throw. A
  // dataset that shuffles has a new order in each epoch of each call, even if another Trainer makes
  // the call. Training that resumes from a backup continues its sequence of orders.
  History fit(const data::Dataset& dataset, const FitOptions& options = {});
  // Returns "loss" and the metrics over the whole dataset, with layers in evaluation mode. Throws
  // InvalidArgument if elements are not pairs, or if the dataset is empty or endless.
  Logs evaluate(const data::Dataset& dataset);
  // Returns the model's outputs, concatenated, in the order of the dataset unless several workers
  // share it. Ignores labels, which may be missing. Throws InvalidArgument if the dataset is empty
  // or endless.
  Tensor predict(const data::Dataset& dataset);

  // For callbacks.
  const TrainingProgress& progress() const;
  // Ends fit() after the steps that are running, with the running epoch's figures so far. If one of
  // several workers calls it, all end after the same step. Any thread may call it.
  void stop();
  // Whether this is the worker that writes files and prints.
  bool is_chief() const;
  // Everything that training changes, as "model" and "optimizer".
  Checkpoint checkpoint() const;
  // All variables of the model, including those that are not trained.
  std::vector<Variable> variables() const;
  optim::Optimizer& optimizer() const;
  Strategy& strategy() const;

 private:
  Trainer(const internal::TrainedModel& model, LossFunction loss, optim::Optimizer& optimizer,
          const TrainerOptions& options, Site site);

  internal::Owned<internal::TrainerImpl> impl_;
};

}  // namespace cohort
