// Torch's own optimizers under strategies.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "cohort/backup.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

using namespace cohort;

namespace {

using Doubles = std::vector<double>;

struct Scales : torch::nn::Module {
  Scales()
      : a(register_parameter("a", torch::ones({2}))),
        idle(register_parameter("idle", torch::ones({3}))),
        seen(register_buffer("seen", torch::zeros({1}, torch::kFloat64))) {}
  torch::Tensor a, idle, seen;
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

// torch adds up what backward() finds; the replicas meet once, in the update.
TEST(TorchOptimizer, AppliesGradientsOfSeveralLosses) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::SGD> optimizer(net, kQuarter);
  strategy.run([&] {
    for (int i = 0; i < 3; ++i) (net->a.sum() * i).backward();
    net->idle.sum().backward();
    optimizer.apply_gradients({Tensor(net->a.grad()), Gradient()}, net);
    EXPECT_FALSE(net->a.grad().defined());
  });
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(net.copy(i).a[0].item<float>(), 1 - 0.25f * 2 * 3);
  EXPECT_EQ(net->idle[0].item<float>(), 1);  // what backward() left there does not count
  EXPECT_ERROR(Code::InvalidArgument, "",
               strategy.run([&] { optimizer.apply_gradients({Gradient()}, net); }));
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

const torch::optim::SGDOptions kMomentum = torch::optim::SGDOptions(0.25).momentum(0.5);

TEST(TorchOptimizer, IsKeptByACheckpoint) {
  const TemporaryDirectory directory;
  const std::string prefix = directory.path() + "/ckpt";
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  TorchOptimizer<torch::optim::SGD> optimizer(net, kMomentum);
  Checkpoint checkpoint({{"net", net}, {"optimizer", optimizer}});
  checkpoint.write(prefix + "-0");
  step(strategy, net, optimizer);
  const Doubles first = values(net.variables()[0]);
  step(strategy, net, optimizer);
  checkpoint.write(prefix);
  step(strategy, net, optimizer);
  const Doubles expected = values(net.variables()[0]);

  const TorchModule<Scales> again;
  TorchOptimizer<torch::optim::SGD> restored(again, kQuarter);
  Checkpoint({{"net", again}, {"optimizer", restored}}).read(prefix).assert_consumed();
  EXPECT_EQ(Tensor(restored.iterations()).to<int64_t>(), 2);
  step(strategy, again, restored);
  EXPECT_EQ(values(again.variables()[0]), expected);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(again.copy(i).a[1].item<double>(), expected[1]);
  EXPECT_EQ(Tensor(restored.iterations()).to<int64_t>(), 3);
  checkpoint.read(prefix);  // back again
  step(strategy, net, optimizer);
  EXPECT_EQ(values(net.variables()[0]), expected);
  checkpoint.read(prefix + "-0");  // when there was no momentum
  step(strategy, net, optimizer);
  EXPECT_EQ(values(net.variables()[0]), first);

  TorchOptimizer<torch::optim::Adam> adam(again);
  EXPECT_ERROR(Code::DataLoss, "optimizer of this kind",
               Checkpoint({{"optimizer", adam}}).read(prefix).expect_partial());
}

// The workers step alike.
TEST(TorchOptimizer, IsKeptOnceForAllWorkers) {
  const TemporaryDirectory directory;
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const TorchModule<Scales> net;
    TorchOptimizer<torch::optim::SGD> optimizer(net, kMomentum);
    Checkpoint checkpoint({{"net", net}, {"optimizer", optimizer}});
    step(strategy, net, optimizer);
    checkpoint.write(directory.path() + "/ckpt");
    step(strategy, net, optimizer);
    const Doubles expected = values(net.variables()[0]);
    checkpoint.read(directory.path() + "/ckpt").assert_consumed();
    step(strategy, net, optimizer);
    EXPECT_EQ(values(net.variables()[0]), expected);
  });
  EXPECT_EQ(CheckpointReader(directory.path() + "/ckpt").read("optimizer/torch").shape(), Shape{});
}

// Two workers, of which one is started again. The guard compares copies after the first update that
// the workers make together and after every third.
class RestartedTorchWorker : public testing::TestWithParam<bool> {};

TEST_P(RestartedTorchWorker, TrainsOnWithTheOthers) {
  const bool tracked = GetParam();
  const auto train = [&](MultiWorkerMirroredStrategy& strategy, const std::string& directory,
                         int64_t crash) {
    const internal::TorchRandomScope process(1);  // the generator that a process has
    const auto scope = strategy.scope();
    const TorchModule<Scales> net;
    TorchOptimizer<torch::optim::SGD> optimizer(net, tracked ? kMomentum : kQuarter);
    std::vector<Checkpoint::Item> objects{{"net", net}};
    if (tracked) objects.emplace_back("optimizer", optimizer);
    BackupAndRestore backup(strategy, objects, {.directory = directory, .every_steps = 2});
    int64_t made = 0;
    backup.run(strategy.distribute_dataset(data::range(24).batch(2)),
               [&](const DistributedElement& batch) {
                 strategy.run(
                     [&](const Tensor& x) {
                       const double factor = sum(x).to<double>() / 64;
                       net->seen.add_(factor);
                       optimizer.minimize((net->a * torch::rand({2})).sum() * factor, net);
                     },
                     batch);
                 if (++made == crash) throw Error(Code::Internal, "power cut");
               });
    Doubles found = values(net.variables()[0]);
    found.push_back(net->seen.item<double>());
    return found;
  };
  const MultiWorkerOptions options{.guards = {.divergence_interval = 3}};
  const auto run = [&](int64_t crash) {
    const TemporaryDirectory directory;
    const ClusterSpec cluster = test::free_workers(2);
    std::vector<Doubles> results(2);
    const auto statuses = test::run_threads(2, [&](int id) {
      if (id == 1 && crash > 0) {
        MultiWorkerMirroredStrategy strategy(test::worker_of(cluster, id), options);
        EXPECT_ERROR(Code::Internal, "power cut", train(strategy, directory.path(), crash));
      }
      MultiWorkerMirroredStrategy strategy(test::worker_of(cluster, id), options);
      results[static_cast<size_t>(id)] = train(strategy, directory.path(), -1);
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
    return results;
  };
  const std::vector<Doubles> expected = run(-1);
  EXPECT_EQ(expected[0], expected[1]);
  EXPECT_EQ(run(5), expected);
}

INSTANTIATE_TEST_SUITE_P(OptimizerInTheBackupOrNot, RestartedTorchWorker, testing::Bool());

}  // namespace
