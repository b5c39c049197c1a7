// Modules of LibTorch on simulated GPUs.

#include <cohort/simulated_gpus.h>
#include <cohort/torch.h>
#include <gtest/gtest.h>

using namespace cohort;

namespace {

struct Net : torch::nn::Module {
  explicit Net(int64_t inputs)
      : first(register_module("first", torch::nn::Linear(inputs, 8))),
        norm(register_module("norm", torch::nn::BatchNorm1d(8))),
        second(register_module("second", torch::nn::Linear(8, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(norm(first(x)))); }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
};

// The losses of 16 steps, and then the variables.
std::vector<double> train(const std::vector<std::string>& devices) {
  torch::manual_seed(3);
  random::set_seed(3);
  MirroredStrategy strategy(devices);
  const auto scope = strategy.scope();
  const TorchModule<Net> net{int64_t{4}};
  optim::Adam optimizer({.learning_rate = 0.05});
  const Tensor x = random::normal({32, 4});
  const auto batches = data::from_tensor_slices(x, sum(x, 1, KeepDims::Yes)).repeat(4).batch(8);
  const auto step = [&](Tensor in, Tensor out) {
    const torch::Tensor loss = (net->forward(in) - torch::Tensor(out)).square().sum() / 8;
    optimizer.minimize(loss, net);
    return Tensor(loss.detach());
  };
  std::vector<double> values;
  for (auto batch : strategy.distribute_dataset(batches)) {
    const Tensor loss = strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
    values.push_back(loss.to<double>());
  }
  for (const Variable& variable : net.variables()) {
    for (const double value : Tensor(variable).to_vector<double>()) values.push_back(value);
  }
  return values;
}

TEST(TorchModuleOnGpus, TrainsAsOnCpus) {
  make_simulated_gpus(2);
  const std::vector<double> expected = train({"CPU:0", "CPU:1"});
  const std::vector<double> values = train({"GPU:0", "GPU:1"});
  ASSERT_GT(values.size(), 16u);
  EXPECT_EQ(values, expected);
}

TEST(TorchModuleOnGpus, GivesAndTakesTensorsOfTheGpu) {
  make_simulated_gpus(2);
  const DeviceScope on("GPU:1");
  const torch::Tensor there = torch::Tensor(ones({4, 4}) * 2.f);
  EXPECT_EQ(there.device(), at::Device(at::DeviceType::PrivateUse1, 1));
  const Tensor back(there.matmul(there));
  EXPECT_EQ(back.device(), canonical_device("GPU:1"));
  EXPECT_EQ(back.to_vector<float>()[0], 16.f);
}

}  // namespace
