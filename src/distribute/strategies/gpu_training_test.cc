// Training on simulated GPUs gives the results of the CPU, to all digits.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/simulated_gpus.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Losses = std::vector<float>;
using MakeModel = std::function<nn::Sequential()>;

class GpuTraining : public ::testing::Test {
 protected:
  GpuTraining() { make_simulated_gpus(2); }
};

nn::Sequential perceptron() {
  return nn::Sequential{nn::Dense(36, 16), nn::relu, nn::Dense(16, 3)};
}

nn::Sequential convolutional() {
  return nn::Sequential{[](const Tensor& x) {
                          return reshape(x, {-1, 1, 6, 6});
                        },
                        nn::Conv2d(1, 4, 3), nn::relu, nn::Flatten(), nn::Dense(64, 3)};
}

// Eight steps on 16 examples each, whose sum of losses all replicas together give.
template <typename Optimizer, typename Options>
Losses train(Strategy& strategy, const MakeModel& make_model, const Options& options) {
  random::set_seed(7);
  const Tensor images = random::normal({64, 36});
  const Tensor labels = cast(floor(random::uniform({64}) * 3.f), kInt64);
  const auto batches = data::from_tensor_slices(images, labels).repeat(2).batch(16);
  auto scope = strategy.scope();
  nn::Sequential model = make_model();
  Optimizer optimizer(options);
  const auto step = [&](Tensor x, Tensor y) {
    GradientTape tape;
    const Tensor loss = sum(nn::softmax_cross_entropy(model(x), y)) / 16.f;
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    return loss;
  };
  Losses losses;
  for (auto batch : strategy.distribute_dataset(batches)) {
    const Tensor loss = strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
    losses.push_back(loss.to<float>());
  }
  for (const Variable& variable : model.variables()) {
    for (const float value : variable.read_value().to_vector<float>()) losses.push_back(value);
  }
  return losses;
}

template <typename Optimizer, typename Options>
void expect_equal_training(const MakeModel& make_model, const Options& options,
                           const MirroredOptions& mirrored = {}) {
  MirroredStrategy on_cpus({"CPU:0", "CPU:1"});
  MirroredStrategy on_gpus({"GPU:0", "GPU:1"}, mirrored);
  const Losses expected = train<Optimizer>(on_cpus, make_model, options);
  const Losses losses = train<Optimizer>(on_gpus, make_model, options);
  ASSERT_GT(losses.size(), 8u);
  EXPECT_EQ(losses, expected);
  EXPECT_LT(losses[7], losses[0]);
}

TEST_F(GpuTraining, OfAPerceptronGivesTheLossesOfTheCpu) {
  expect_equal_training<optim::Sgd>(perceptron,
                                    optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
  expect_equal_training<optim::Adam>(perceptron, optim::AdamOptions{.learning_rate = 0.01});
}

TEST_F(GpuTraining, OfAConvolutionalNetworkGivesTheLossesOfTheCpu) {
  expect_equal_training<optim::Adam>(convolutional, optim::AdamOptions{.learning_rate = 0.01});
}

TEST_F(GpuTraining, WorksWithEachReduction) {
  const optim::SgdOptions options{.learning_rate = 0.1};
  for (const std::shared_ptr<CrossDeviceOps>& ops : std::vector<std::shared_ptr<CrossDeviceOps>>{
           std::make_shared<DirectAllReduce>(), std::make_shared<ReductionToOneDevice>(),
           std::make_shared<HierarchicalCopyAllReduce>()}) {
    SCOPED_TRACE(ops->to_string());
    expect_equal_training<optim::Sgd>(perceptron, options, {.cross_device_ops = ops});
  }
}

TEST_F(GpuTraining, UsesAllGpusWithoutAList) {
  MirroredStrategy strategy;
  EXPECT_EQ(strategy.extended().worker_devices(),
            (std::vector<std::string>{canonical_device("GPU:0"), canonical_device("GPU:1")}));
}

TEST_F(GpuTraining, KeepsEachCopyOnItsGpu) {
  MirroredStrategy strategy({"GPU:0", "GPU:1"});
  auto scope = strategy.scope();
  Variable weights(ones({100}));
  const auto devices = strategy.run([&] {
    weights.assign_add(ones({100}));
    return weights.read_value().device() + " " + (weights * 2.f).device();
  });
  for (int i = 0; i < 2; ++i) {
    const std::string gpu = canonical_device("GPU:" + std::to_string(i));
    EXPECT_EQ(strategy.local_results(devices)[static_cast<size_t>(i)], gpu + " " + gpu);
  }
}

TEST_F(GpuTraining, OfOneDeviceGivesTheLossesOfTheCpu) {
  OneDeviceStrategy cpu("CPU:0");
  OneDeviceStrategy gpu("GPU:1");
  const optim::SgdOptions options{.learning_rate = 0.1};
  EXPECT_EQ(train<optim::Sgd>(gpu, perceptron, options),
            train<optim::Sgd>(cpu, perceptron, options));
}

TEST_F(GpuTraining, WithVariablesOnTheHostGivesTheLossesOfTheCpu) {
  CentralStorageStrategy cpus({.compute_devices = {"CPU:0", "CPU:1"}});
  CentralStorageStrategy gpus({.compute_devices = {"GPU:0", "GPU:1"}});
  const optim::SgdOptions options{.learning_rate = 0.1};
  EXPECT_EQ(train<optim::Sgd>(gpus, perceptron, options),
            train<optim::Sgd>(cpus, perceptron, options));
}

TEST_F(GpuTraining, OfATracedStepGivesTheLossesOfTheCpu) {
  const auto losses_on = [](const std::vector<std::string>& devices) {
    MirroredStrategy strategy(devices);
    auto scope = strategy.scope();
    Variable weights(ones({100}));
    optim::Sgd optimizer({.learning_rate = 0.1});
    auto step = function([&](Tensor x) {
      GradientTape tape;
      const Tensor loss = mean(square(weights.read_value() * x - 3.f));
      optimizer.apply_gradients({tape.gradient(loss, weights)}, {weights});
      return loss;
    });
    Losses losses;
    for (int i = 0; i < 4; ++i) {
      const auto loss = strategy.run([&] { return step(range(0, 1, 0.01)); });
      losses.push_back(strategy.reduce(ReduceOp::Mean, loss).to<float>());
    }
    return losses;
  };
  EXPECT_EQ(losses_on({"GPU:0", "GPU:1"}), losses_on({"CPU:0", "CPU:1"}));
}

TEST_F(GpuTraining, AMissingGpuIsAnErrorThatSaysHowToSimulateIt) {
  EXPECT_ERROR(Code::InvalidArgument, "COHORT_SIMULATED_GPUS=8",
               MirroredStrategy({"GPU:0", "GPU:7"}));
}

TEST_F(GpuTraining, EndsWithAnErrorWhenAGpuFails) {
  MirroredStrategy strategy({"GPU:0", "GPU:1"});
  auto scope = strategy.scope();
  Variable weights(ones({100}));
  const auto step = [&] { return sum(square(weights.read_value())); };
  strategy.run(step);
  fail_simulated_gpu("GPU:1");
  EXPECT_ERROR(Code::DataLoss, "GPU:1 has failed", strategy.run(step));
  restore_simulated_gpu("GPU:1");
  EXPECT_EQ(strategy.reduce(ReduceOp::Sum, strategy.run(step)).to<float>(), 200.f);
}

}  // namespace
}  // namespace cohort
