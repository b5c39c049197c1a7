// Torch's own optimizers under strategies.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

using namespace cohort;

namespace {

using Doubles = std::vector<double>;

struct Scales : torch::nn::Module {
  Scales()
      : a(register_parameter("a", torch::ones({2}))),
        idle(register_parameter("idle", torch::ones({3}))) {}
  torch::Tensor a, idle;
};

Doubles values(const Tensor& tensor) { return tensor.to_vector<double>(); }

// Along the sum of a, by each replica.
template <typename Optimizer>
void step(Strategy& strategy, const TorchModule<Scales>& net, TorchOptimizer<Optimizer>& optimizer,
          double factor = 1) {
  strategy.run([&] { optimizer.minimize(net->a.sum() * factor, net); });
}

const torch::optim::SGDOptions kQuarter(0.25);

TEST(TorchOptimizer, UpdatesCentralVariablesOnce) {
  CentralStorageStrategy strategy({.compute_devices = {"CPU:0", "CPU:1", "CPU:2"}});
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::SGD> optimizer(net,
                                              torch::optim::SGDOptions(kQuarter).momentum(0.5));
  step(strategy, net, optimizer);
  EXPECT_EQ(values(net.variables()[0]), (Doubles{0.25, 0.25}));  // 1 - 3 / 4
  step(strategy, net, optimizer);
  EXPECT_EQ(values(net.variables()[0]), (Doubles{-0.875, -0.875}));  // a momentum of 1.5 * 3
  EXPECT_EQ(net.copy(2).a[0].item<float>(), -0.875);
}

TEST(TorchOptimizer, StepsInsideOfReplicasOnly) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::SGD> theirs(net, kQuarter);
  optim::Sgd ours({.learning_rate = 0.25});
  EXPECT_ERROR(Code::FailedPrecondition, "strategy.run(", theirs.minimize(net->a.sum(), net));
  EXPECT_ERROR(Code::FailedPrecondition, "strategy.run(", ours.minimize(net->a.sum(), net));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(net.copy(i).a[1].item<float>(), 1);
}

TEST(TorchOptimizer, OfOneReplicaMayStepOutsideOfIt) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::SGD> optimizer(net, kQuarter);
  optimizer.minimize(net->a.sum(), net);
  EXPECT_EQ(net->a[1].item<float>(), 0.75);
}

TEST(TorchOptimizer, WorksWithoutAStrategy) {
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::Adam> optimizer(net);  // torch's defaults
  optimizer.minimize(net->a.sum(), net);
  EXPECT_NEAR(net->a[0].item<float>(), 0.999, 1e-6);
  EXPECT_EQ(Tensor(optimizer.iterations()).to<int64_t>(), 1);
}

TEST(TorchOptimizer, NamesParametersWithoutGradientOnce) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::SGD> optimizer(net, kQuarter);
  ::testing::internal::CaptureStderr();
  step(strategy, net, optimizer);
  step(strategy, net, optimizer);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string warning = "variable 'idle' has no gradient";
  EXPECT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning), log.rfind(warning)) << log;
  EXPECT_EQ(Tensor(optimizer.iterations()).to<int64_t>(), 2);
}

TEST(TorchOptimizer, IsGuardedAgainstWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const GuardAction action : {GuardAction::Stop, GuardAction::Skip}) {
    MirroredStrategy strategy({"CPU:0", "CPU:1"}, {.guards = {.non_finite = action}});
    const auto scope = strategy.scope();
    const TorchModule<Scales> net;
    TorchOptimizer<torch::optim::SGD> optimizer(net, kQuarter);
    if (action == GuardAction::Stop) {
      EXPECT_ERROR(Code::InvalidArgument, "variable 'a'", step(strategy, net, optimizer, nan));
    } else {
      step(strategy, net, optimizer, nan);
    }
    EXPECT_EQ(values(net.variables()[0]), (Doubles{1, 1}));
  }
}

TEST(TorchOptimizer, IsGuardedAgainstDivergence) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"}, {.guards = {.divergence_interval = 1}});
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::SGD> optimizer(net, kQuarter);
  const auto set_rate = [](double rate) {
    return [rate](torch::optim::SGD& copy) {
      static_cast<torch::optim::SGDOptions&>(copy.param_groups()[0].options()).lr(rate);
    };
  };
  optimizer.configure(set_rate(0.5));
  step(strategy, net, optimizer);
  EXPECT_EQ(values(net.variables()[0]), (Doubles{0, 0}));
  const auto step_apart = [&] {
    strategy.run([&] {
      if (get_replica_context()->replica_id_in_sync_group() == 0) set_rate(0.125)(*optimizer);
      optimizer.minimize(net->a.sum(), net);
    });
  };
  EXPECT_ERROR(Code::DataLoss, "variable 'a' of replica 1", step_apart());
}

}  // namespace
