// Modules and optimizers of LibTorch, used again and again, leave nothing behind.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "steady/holdings.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::process_holdings;

// A module on two replicas, with an optimizer of each kind.
struct TorchReplicas {
  MirroredStrategy strategy{std::vector<std::string>{"CPU:0", "CPU:1"}};
  StrategyScope scope = strategy.scope();
  TorchModule<torch::nn::LinearImpl> net{2, 1};
  optim::Sgd sgd{{.learning_rate = 0.01}};
  TorchOptimizer<torch::optim::SGD> torch_sgd{net, torch::optim::SGDOptions(0.01)};

  template <typename Optimizer>
  void train(Optimizer& optimizer) {
    strategy.run([&] {
      const at::Tensor loss = net->forward(torch::ones({4, 2})).square().mean();
      optimizer.minimize(loss, net);
    });
  }
};

TEST(SteadyTorchCalls, OfAModuleAddNothing) {
  TorchReplicas here;
  drive("steps of Cohort's optimizer", calls(500), process_holdings,
        [&](int) { here.train(here.sgd); });
  drive("steps of torch's optimizer", calls(500), process_holdings,
        [&](int) { here.train(here.torch_sgd); });
  drive("forward", calls(500), process_holdings, [&](int) {
    here.strategy.run([&] { (void)here.net->forward(torch::ones({4, 2})); });
  });
  drive("reading its variables", calls(500), process_holdings, [&](int) {
    for (const Variable& variable : here.net.variables()) (void)variable.read_value();
  });
}

TEST(SteadyTorchCalls, OfModulesThatAreDroppedAddNothing) {
  drive(
      "modules", calls(50), process_holdings,
      [](int) {
        TorchReplicas here;
        here.train(here.sgd);
      },
      test::kMoreBytesOfThreads);
}

}  // namespace
}  // namespace cohort
