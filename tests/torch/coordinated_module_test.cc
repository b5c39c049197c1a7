// LibTorch modules inside functions that workers run.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "support/coordinated_cluster.h"

using namespace cohort;

namespace {

// Loss and gradients of a torch module with these parameters.
std::vector<Tensor> loss_of_linear(std::span<const Tensor> inputs) {
  torch::nn::Linear net(2, 1);
  const auto parameters = net->parameters();
  {
    const torch::NoGradGuard quiet;
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].copy_(torch::Tensor(inputs[i]));
    }
  }
  const torch::Tensor loss =
      torch::mse_loss(net->forward(torch::Tensor(inputs[2])), torch::Tensor(inputs[3]));
  loss.backward();
  return {loss.detach(), parameters[0].grad(), parameters[1].grad()};
}
COHORT_FUNCTION(coordinated_module_test_loss, loss_of_linear);

TEST(TorchModulesOnWorkers, TrainVariablesOnParameterServers) {
  test::CoordinatedCluster here(2, 2);
  ClusterCoordinator coordinator(here.strategy);
  Variable kernel = here.strategy.create([] { return Variable(zeros({1, 2})); });
  Variable bias = here.strategy.create([] { return Variable(zeros({1})); });
  // Small enough for gradients that are many updates old, as on a machine with other work to do.
  optim::Sgd optimizer({.learning_rate = 0.03});
  const auto step = function([&](Tensor x, Tensor y) {
    const auto made = call_native("coordinated_module_test_loss", {kernel, bias, x, y},
                                  {{kFloat32, {}}, {kFloat32, {1, 2}}, {kFloat32, {1}}});
    optimizer.apply_gradients({Gradient(made[1]), Gradient(made[2])}, {kernel, bias});
    return made[0];
  });
  const Tensor x({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}});
  const Tensor y({{1.f}, {3.f}, {0.f}, {2.f}});  // 1 - x0 + 2 x1
  const float first = coordinator.fetch(coordinator.schedule(step, x, y)).to<float>();
  for (int i = 0; i < 600; ++i) coordinator.schedule(step, x, y);
  coordinator.join();
  const float last = coordinator.fetch(coordinator.schedule(step, x, y)).to<float>();
  EXPECT_LT(last, first / 100);
}

// It would keep a second set of weights, which no optimizer trains.
TEST(TorchModulesOnWorkers, AreRefusedWhereVariablesAreOnParameterServers) {
  test::CoordinatedCluster here(1, 1);
  const auto scope = here.strategy.scope();
  EXPECT_ERROR(Code::FailedPrecondition, "MultiWorkerMirroredStrategy",
               TorchModule<torch::nn::LinearImpl>(2, 1));
}

TEST(TorchModulesOnWorkers, AreRefusedInGraphs) {
  Graph graph;
  const auto building = graph.as_default();
  EXPECT_ERROR(Code::FailedPrecondition, "part of a graph",
               TorchModule<torch::nn::LinearImpl>(2, 1));
}

}  // namespace
