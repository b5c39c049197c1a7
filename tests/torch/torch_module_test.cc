// Modules and optimizers of LibTorch under strategies.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

using namespace cohort;

namespace {

struct Linear : torch::nn::Module {
  explicit Linear(int64_t inputs = 2)
      : layer(register_module("layer", torch::nn::Linear(inputs, 1))),
        unused(register_parameter("unused", torch::ones({3}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return layer(x); }
  torch::nn::Linear layer;
  torch::Tensor unused;
};

struct Normed : torch::nn::Module {
  Normed() : norm(register_module("norm", torch::nn::BatchNorm1d(2))) {}
  torch::Tensor forward(const torch::Tensor& x) { return norm(x); }
  torch::nn::BatchNorm1d norm;
};

Tensor inputs() { return Tensor({{1.f, 2.f}, {3.f, -1.f}, {0.5f, 0.25f}, {-2.f, 1.f}}); }
Tensor targets() { return matmul(inputs(), Tensor({{2.f}, {-3.f}})) + 1.f; }

// The parameters after some steps on the same global batches.
template <typename Optimizer>
std::vector<double> train(Strategy& strategy, const TorchModule<Linear>& net,
                          Optimizer& optimizer) {
  const auto batches = data::from_tensor_slices(inputs(), targets()).repeat(20).batch(4);
  for (auto batch : strategy.distribute_dataset(batches)) {
    strategy.run(
        [&](Tensor x, Tensor y) {
          const torch::Tensor loss = (net->forward(x) - torch::Tensor(y)).square().sum() / 4;
          optimizer.minimize(loss, net);
        },
        batch);
  }
  std::vector<double> values;
  for (const Variable& variable : net.variables()) {
    for (const double value : Tensor(variable).to_vector<double>()) values.push_back(value);
  }
  return values;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(b[i])));
}

TEST(TorchModule, HasOneEqualCopyPerReplica) {
  MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});
  const auto scope = strategy.scope();
  const TorchModule<Linear> net{2};
  ASSERT_EQ(net.num_copies(), 3u);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_NE(&net.copy(0), &net.copy(i));
    EXPECT_TRUE(torch::equal(net.copy(0).layer->weight, net.copy(i).layer->weight));
    EXPECT_FALSE(net.copy(0).layer->weight.is_same(net.copy(i).layer->weight));
  }
}

TEST(TorchModule, GivesEveryReplicaItsOwnCopy) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Linear> net{2};
  const auto own = strategy.run([&] { return reinterpret_cast<uintptr_t>(&*net); });
  EXPECT_EQ(own[0], reinterpret_cast<uintptr_t>(&net.copy(0)));
  EXPECT_EQ(own[1], reinterpret_cast<uintptr_t>(&net.copy(1)));
}

TEST(TorchModule, NamesItsVariablesAsTorchDoes) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  const TorchModule<Linear> net{2};
  std::vector<std::string> names;
  for (const Variable& variable : net.variables()) names.push_back(variable.name());
  EXPECT_EQ(names, (std::vector<std::string>{"unused", "layer.weight", "layer.bias"}));
}

TEST(TorchModule, CannotBeMadeInARun) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  EXPECT_ERROR(Code::FailedPrecondition, "in the strategy's scope",
               strategy.run([] { TorchModule<Linear> net{2}; }));
}

TEST(TorchModule, TrainsAsOneReplicaOnTheWholeBatch) {
  std::vector<std::vector<double>> results;
  for (const int replicas : {1, 2, 4}) {
    std::vector<std::string> devices;
    for (int i = 0; i < replicas; ++i) devices.push_back("CPU:" + std::to_string(i));
    MirroredStrategy strategy(devices);
    const auto scope = strategy.scope();
    torch::manual_seed(3);
    const TorchModule<Linear> net{2};
    optim::Adam optimizer({.learning_rate = 0.1});
    results.push_back(train(strategy, net, optimizer));
    for (size_t i = 1; i < net.num_copies(); ++i) {
      EXPECT_TRUE(torch::equal(net.copy(0).layer->weight, net.copy(i).layer->weight));
    }
  }
  expect_near(results[1], results[0]);
  expect_near(results[2], results[0]);
}

TEST(TorchModule, TrainsUnderCentralStorage) {
  std::vector<std::vector<double>> results;
  for (const std::vector<std::string>& devices :
       {std::vector<std::string>{"CPU:0"}, std::vector<std::string>{"CPU:0", "CPU:1"}}) {
    CentralStorageStrategy strategy({.compute_devices = devices});
    const auto scope = strategy.scope();
    torch::manual_seed(3);
    const TorchModule<Linear> net{2};
    optim::Sgd optimizer({.learning_rate = 0.05});
    results.push_back(train(strategy, net, optimizer));
  }
  expect_near(results[1], results[0]);
}

TEST(TorchModule, LeavesUnusedParametersAlone) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Linear> net{2};
  optim::Sgd optimizer({.learning_rate = 0.05});
  train(strategy, net, optimizer);
  EXPECT_EQ(Tensor(net.variables()[0]).to_vector<double>(), (std::vector<double>{1, 1, 1}));
}

TEST(TorchModule, SharesMemoryWithItsVariables) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  const TorchModule<Linear> net{2};
  {
    const torch::NoGradGuard unrecorded;
    net->unused.fill_(5);
  }
  EXPECT_EQ(Tensor(net.variables()[0]).to_vector<double>(), (std::vector<double>{5, 5, 5}));
}

TEST(TorchModule, HasTheValuesThatItsVariablesWereGiven) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Linear> net{2};
  const Tensor given({5.f, 6.f, 7.f});
  Variable unused = net.variables()[0];
  unused.assign(given);
  EXPECT_EQ(Tensor(net->unused.detach()).to_vector<float>(), given.to_vector<float>());
  strategy.run([&] { net.configure([](Linear& copy) { copy.unused.add_(1); }); });
  EXPECT_EQ(Tensor(unused).to_vector<double>(), (std::vector<double>{6, 7, 8}));  // added once
  EXPECT_EQ(given.to_vector<double>(), (std::vector<double>{5, 6, 7}));           // not shared
}

TEST(TorchModule, IsRestoredFromACheckpoint) {
  const TemporaryDirectory directory;
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const auto x = torch::randn({4, 2});
  const TorchModule<Normed> saved;
  strategy.run([&] { saved->forward(x); });
  const std::string prefix = Checkpoint({{"net", saved}}).save(directory.path() + "/model");
  const TorchModule<Normed> restored;
  Checkpoint({{"net", restored}}).restore(prefix).assert_existing_objects_matched();
  saved->eval();
  restored->eval();
  EXPECT_TRUE(torch::equal(restored->forward(x), saved->forward(x)));
}

TEST(TorchModule, AveragesTheStatisticsOfABatchNorm) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Normed> net;
  const auto batches = data::from_tensor_slices(inputs()).batch(4);
  for (auto batch : strategy.distribute_dataset(batches)) {
    strategy.run([&](Tensor x) { net->forward(x); }, batch);
  }
  ASSERT_EQ(net.buffers()[0].name(), "norm.running_mean");
  // Momentum 0.1 of the halves' means, (2, 0.5) and (-0.75, 0.625).
  const std::vector<double> mean = Tensor(net.buffers()[0]).to_vector<double>();
  EXPECT_NEAR(mean[0], 0.1 * (2 - 0.75) / 2, 1e-6);
  EXPECT_NEAR(mean[1], 0.1 * (0.5 + 0.625) / 2, 1e-6);
}

TEST(TorchOptimizer, TrainsAsOneReplicaOnTheWholeBatch) {
  std::vector<std::vector<double>> results;
  for (const std::vector<std::string>& devices :
       {std::vector<std::string>{"CPU:0"}, std::vector<std::string>{"CPU:0", "CPU:1"}}) {
    MirroredStrategy strategy(devices);
    const auto scope = strategy.scope();
    torch::manual_seed(3);
    const TorchModule<Linear> net{2};
    TorchOptimizer<torch::optim::Adam> optimizer(net, torch::optim::AdamOptions(0.1));
    results.push_back(train(strategy, net, optimizer));
  }
  expect_near(results[1], results[0]);
}

// Each worker draws other random numbers for its module; all train the chief's.
TEST(TorchModule, TrainsOnSeveralWorkers) {
  std::vector<std::vector<double>> found(2);
  const auto batches = data::from_tensor_slices(inputs(), targets())
                           .repeat(300)
                           .batch(4)
                           .options({.auto_shard_policy = data::AutoShardPolicy::Data});
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const TorchModule<Linear> net{2};
    TorchOptimizer<torch::optim::SGD> theirs(net, torch::optim::SGDOptions(0.05));
    optim::Sgd ours({.learning_rate = 0.05});
    for (auto batch : strategy.distribute_dataset(batches)) {
      strategy.run(
          [&](Tensor x, Tensor y) {
            const auto loss = [&] {
              return (net->forward(x) - torch::Tensor(y)).square().sum() / 4;
            };
            ours.minimize(loss(), net);
            theirs.minimize(loss(), net);
          },
          batch);
    }
    const auto id = static_cast<size_t>(strategy.worker_id());
    for (const Variable& variable : net.variables()) {
      for (const double value : Tensor(variable).to_vector<double>()) found[id].push_back(value);
    }
  });
  EXPECT_EQ(found[0], found[1]);  // bit for bit
  expect_near(found[0], {1, 1, 1, 2, -3, 1});
}

// Packs of one gradient each, reduced as soon as torch's autograd has it.
TEST(TorchModule, IsReducedWhileTheBackwardPassGoesOn) {
  std::vector<std::vector<double>> found;
  for (const bool overlap : {false, true}) {
    std::vector<double> first;
    const auto train_one = [&](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      const TorchModule<Linear> net{2};
      // Torch's generator is one for all workers of this process: their starts would race.
      for (Variable variable : net.variables()) variable.assign(ones_like(variable) * 0.5);
      optim::Adam optimizer({.learning_rate = 0.05});
      for (int step = 0; step < 6; ++step) {
        strategy.run([&] {
          const auto id = get_replica_context()->replica_id_in_sync_group();
          const torch::Tensor x = torch::Tensor(inputs()) * (id + 1);
          optimizer.minimize((net->forward(x) - torch::Tensor(targets())).square().sum() / 4, net);
          EXPECT_FALSE(net->layer->bias.grad().defined());
        });
      }
      if (!strategy.is_chief()) return;
      for (const Variable& variable : net.variables()) {
        for (const double value : Tensor(variable).to_vector<double>()) first.push_back(value);
      }
    };
    test::on_workers(2, train_one,
                     {.communication = {.bytes_per_pack = 1},
                      .devices = {"CPU:0", "CPU:1"},
                      .overlap = overlap});
    found.push_back(first);
  }
  EXPECT_EQ(found[0], found[1]);  // bit for bit
}

TEST(TorchModule, WorksWithoutAStrategy) {
  torch::manual_seed(3);
  const TorchModule<Linear> net{2};
  optim::Sgd optimizer({.learning_rate = 0.05});
  const torch::Tensor before = net->layer->weight.clone();
  optimizer.minimize((net->forward(inputs()) - torch::Tensor(targets())).square().sum(), net);
  EXPECT_FALSE(torch::equal(before, net->layer->weight));
}

}  // namespace
