// Every optimizer that torch has too, step by step beside torch's.

#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <functional>
#include <memory>

#include "cohort/ops.h"
#include "cohort/optim.h"

namespace cohort::optim {
namespace {

using Parameters = std::vector<at::Tensor>;

struct Pair {
  std::string name;
  std::function<std::unique_ptr<Optimizer>()> ours;
  std::function<std::unique_ptr<torch::optim::Optimizer>(Parameters)> torchs;
};

template <typename Ours, typename Options, typename Torchs, typename TorchsOptions>
Pair pair(std::string name, Options options, TorchsOptions torchs_options) {
  return {std::move(name), [=] { return std::make_unique<Ours>(options); },
          [=](Parameters parameters) {
            return std::make_unique<Torchs>(std::move(parameters), torchs_options);
          }};
}

Pair sgd(std::string name, SgdOptions options) {
  return pair<Sgd, SgdOptions, torch::optim::SGD>(std::move(name), options,
                                                  torch::optim::SGDOptions(0.1)
                                                      .momentum(options.momentum)
                                                      .nesterov(options.nesterov)
                                                      .weight_decay(options.weight_decay));
}

Pair adam(std::string name, AdamOptions options) {
  return pair<Adam, AdamOptions, torch::optim::Adam>(
      std::move(name), options,
      torch::optim::AdamOptions(0.1)
          .betas(std::make_tuple(options.beta1, options.beta2))
          .eps(options.epsilon.value_or(1e-8))
          .weight_decay(options.weight_decay));
}

Pair adam_w(std::string name, AdamWOptions options) {
  return pair<AdamW, AdamWOptions, torch::optim::AdamW>(
      std::move(name), options,
      torch::optim::AdamWOptions(0.1)
          .betas(std::make_tuple(options.beta1, options.beta2))
          .eps(options.epsilon.value_or(1e-8))
          .weight_decay(options.weight_decay.value_or(0.01)));
}

Pair adagrad(std::string name, AdagradOptions options) {
  return pair<Adagrad, AdagradOptions, torch::optim::Adagrad>(
      std::move(name), options,
      torch::optim::AdagradOptions(0.1)
          .initial_accumulator_value(options.initial_accumulator.value_or(0))
          .eps(options.epsilon.value_or(1e-10))
          .weight_decay(options.weight_decay));
}

Pair rms_prop(std::string name, RmsPropOptions options) {
  return pair<RmsProp, RmsPropOptions, torch::optim::RMSprop>(
      std::move(name), options,
      torch::optim::RMSpropOptions(0.1)
          .alpha(options.rho.value_or(0.99))
          .eps(options.epsilon.value_or(1e-8))
          .momentum(options.momentum)
          .centered(options.centered)
          .weight_decay(options.weight_decay));
}

std::vector<Pair> pairs() {
  return {
      sgd("Sgd", {.learning_rate = 0.1}),
      sgd("SgdMomentum", {.learning_rate = 0.1, .momentum = 0.9}),
      sgd("SgdNesterov", {.learning_rate = 0.1, .momentum = 0.8, .nesterov = true}),
      sgd("SgdDecay", {.learning_rate = 0.1, .weight_decay = 0.05}),
      sgd("SgdAll",
          {.learning_rate = 0.1, .momentum = 0.8, .nesterov = true, .weight_decay = 0.05}),
      adam("Adam", {.learning_rate = 0.1}),
      adam("AdamConstants", {.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4}),
      adam("AdamDecay", {.learning_rate = 0.1, .weight_decay = 0.05}),
      adam_w("AdamW", {.learning_rate = 0.1}),
      adam_w("AdamWDecay", {.learning_rate = 0.1, .weight_decay = 0.2}),
      adagrad("Adagrad", {.learning_rate = 0.1}),
      adagrad("AdagradAll", {.learning_rate = 0.1,
                             .initial_accumulator = 0.1,
                             .epsilon = 1e-6,
                             .weight_decay = 0.05}),
      rms_prop("RmsProp", {.learning_rate = 0.1}),
      rms_prop("RmsPropCentered", {.learning_rate = 0.1, .rho = 0.9, .centered = true}),
      rms_prop("RmsPropMomentum", {.learning_rate = 0.1, .momentum = 0.9}),
      rms_prop("RmsPropAll", {.learning_rate = 0.1,
                              .rho = 0.9,
                              .epsilon = 1e-4,
                              .momentum = 0.5,
                              .centered = true,
                              .weight_decay = 0.05}),
  };
}

class BesideTorch : public ::testing::TestWithParam<Pair> {};

// Values that go up and down over the elements and over the steps.
at::Tensor wave(at::ScalarType type, double phase) {
  return (at::arange(12, at::kDouble) * 0.7 + phase).sin().reshape({3, 4}).to(type);
}

Tensor ours(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.detach().to(at::kDouble).contiguous();
  const std::span<const double> values(wide.data_ptr<double>(), 12);
  return cast(Tensor::from(values, {3, 4}),
              tensor.scalar_type() == at::kFloat ? kFloat32 : kFloat64);
}

void expect_same_steps(const Pair& both, at::ScalarType type, double tolerance) {
  at::Tensor expected = wave(type, 0.3).set_requires_grad(true);
  Variable actual(ours(expected), {.name = "w"});
  const std::unique_ptr<Optimizer> optimizer = both.ours();
  const auto reference = both.torchs({expected});
  for (int step = 0; step < 20; ++step) {
    const at::Tensor gradient = wave(type, 1.1 * step);
    expected.mutable_grad() = gradient;
    reference->step();
    optimizer->apply_gradients({ours(gradient)}, {actual});
    const double error = max(abs(actual - ours(expected))).to<double>();
    ASSERT_LE(error, tolerance) << "step " << step;
  }
}

TEST_P(BesideTorch, TakesTheSameStepsInFloat64) {
  expect_same_steps(GetParam(), at::kDouble, 1e-12);
}

TEST_P(BesideTorch, TakesTheSameStepsInFloat32) { expect_same_steps(GetParam(), at::kFloat, 1e-5); }

INSTANTIATE_TEST_SUITE_P(All, BesideTorch, ::testing::ValuesIn(pairs()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace cohort::optim
