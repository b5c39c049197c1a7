#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "cohort/callbacks.h"
#include "cohort/cohort.h"
#include "errors/catalogue.h"
#include "support/temporary_file.h"

namespace cohort::test {
namespace {

using data::Dataset;

Dataset pairs() { return data::from_tensor_slices(ones({8, 2}), zeros({8, 1})); }

struct Model {
  nn::Dense layer{2, 1};
  optim::Sgd optimizer;
  Trainer trainer{layer, nn::mean_squared_error, optimizer};
  void fit(const Dataset& data, FitOptions options) {
    options.progress = false;
    trainer.fit(data, options);
  }
  void fit_with(const std::shared_ptr<Callback>& callback) {
    fit(pairs().batch(4), {.callbacks = {callback}});
  }
};

TEST(Errors, OfLayersAndLosses) {
  check_section(
      "Layers and losses",
      {
          {[] { nn::Dense(0, 3); }},
          {[] { nn::Dense(3, 2, {.dtype = kInt32}); }},
          {[] {
             nn::Dense(784, 10)(ones({32, 100}));
           },
           "Give the layer the input's size, or leave the size out: `nn::Dense(10)`."},
          {[] { nn::Dense(3).kernel(); }},
          {[] {
            nn::Conv2d(3, 4, 3)(ones({3, 8, 8}));
          }},
          {[] { nn::Conv2d(3, 4, 3, {.groups = 2}); },
           "Choose a number of groups that divides both."},
          {[] { nn::Dropout(1.0); }},
          {[] { nn::BatchNorm(1, {.momentum = 2}); }},
          {[] { nn::Flatten()(Tensor(1.f)); }},
          {[] { nn::Embedding(3, 2)(Tensor({5})); },
           "Ids start at 0; give the layer as many rows as there are ids."},
          {[] {
             nn::StringLookup({"a", "b", "a"});
           },
           "List each string once."},
          {[] {
            nn::StringLookup({"yes", "no"}, {.num_oov_indices = 0})(Tensor({"perhaps"}));
          }},
          {[] { nn::l2(-1); }},
          {[] { nn::uniform(1, 1); }},
          {[] {
             nn::softmax_cross_entropy(ones({2, 3}), Tensor({1, 7}));
           },
           "Labels are class ids from 0; give the model as many outputs as there are classes."},
          {[] {
            nn::softmax_cross_entropy(ones({2, 3}), Tensor({1, 2, 0}));
          }},
          {[] {
             nn::mean_squared_error(ones({2, 3}), ones({2, 2}));
           },
           "Give targets of the predictions' shape."},
      });
}

TEST(Errors, OfOptimizersAndMetrics) {
  const Variable a({1.f, 2.f}, {.name = "a"});
  const Variable counts({1, 2}, {.name = "counts"});
  optim::Sgd optimizer;
  check_section(
      "Optimizers and metrics",
      {
          {[] { optim::Sgd({.learning_rate = -0.1}); }},
          {[] { optim::Sgd({.nesterov = true}); }},
          {[] { optim::Adam({.beta1 = 1}); }},
          {[] { optim::exponential_decay({.decay_steps = 0}); }},
          {[] { optim::piecewise_constant({10}, {0.1}); }, "Give one rate more than boundaries."},
          {[] { optim::clip_by_norm({}, -1); }},
          {[&] { optimizer.apply_gradients({ones({3})}, {a}); },
           "Give the gradients in the order of the variables."},
          {[&] {
            optimizer.apply_gradients({ones({2}), ones({2})}, {a});
          }},
          {[&] { optimizer.apply_gradients({Gradient()}, {a}); }},
          {[&] { optimizer.apply_gradients({ones({2})}, {counts}); }},
          {[&] { optimizer.minimize(Tensor(1.f), {a}); }},
          {[&] { optimizer.slot(a, "momentum"); },
           "Ask after the first update; an optimizer without momentum has no such slot."},
          {[] { metrics::Auc({.thresholds = 1}); }},
          {[] {
            metrics::SparseCategoricalAccuracy().update(Tensor({1.f}), ones({1, 3}));
          }},
          {[] { metrics::Auc().update(Tensor({1}), Tensor({3.f})); }},
      });
}

TEST(Errors, OfTheTrainerAndCallbacks) {
  const TemporaryDirectory directory;
  const std::string other_columns = directory.write("log.csv", "epoch,accuracy\n1,0.5\n");
  Model model;
  check_section(
      "Trainer and callbacks",
      {
          {[&] { model.fit(pairs().batch(4), {.epochs = 0}); }},
          {[&] { model.fit(pairs().batch(4), {.steps_per_execution = 0}); }},
          {[&] { model.fit(data::range(4).batch(2), {}); }},
          {[&] { model.fit(pairs().take(0).batch(4), {}); }},
          {[&] { model.trainer.evaluate(pairs().batch(4).repeat()); }},
          {[&] { model.fit(pairs(), {}); }, "`batch()` the dataset."},
          {[&] { model.fit_with(nullptr); }},
          {[&] { model.fit_with(std::make_shared<EarlyStopping>()); }},
          {[&] { ModelCheckpoint({}); }},
          {[&] { TensorBoard({}); }},
          {[&] { model.fit_with(std::make_shared<CsvLogger>(other_columns)); }},
          {[&] { model.fit_with(std::make_shared<CsvLogger>("/no/such/directory/log.csv")); },
           "Make the directory first."},
          {[&] {
            Checkpoint({{"model", model.layer}}).save(directory.path() + "/backup");
            model.fit(pairs().batch(4), {.backup = directory.path()});
          }},
      });
}

}  // namespace
}  // namespace cohort::test
