// Statistics of batch norms under strategies.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"
#include "support/torch_floats.h"

using namespace cohort;

namespace {

using test::Floats;
using test::floats;

struct Normed : torch::nn::Module {
  Normed()
      : norm(register_module("norm", torch::nn::BatchNorm1d(2))),
        layer(register_module("layer", torch::nn::Linear(2, 1))),
        mask(register_buffer("mask", torch::ones({3}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return layer(norm(x)); }
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear layer;
  torch::Tensor mask;
};

// Different in each replica and step, with means and variances that are not round numbers.
torch::Tensor batch(int step) {
  const int id = get_replica_context()->replica_id_in_sync_group();
  const torch::Tensor places = torch::arange(8, torch::kFloat32).reshape({4, 2});
  return torch::sin(places * (0.7 + id) + step) * (1 + id) / 3;
}

void train(Strategy& strategy, const TorchModule<Normed>& net, int begin, int end) {
  optim::Sgd optimizer({.learning_rate = 0.1});
  for (int step = begin; step < end; ++step) {
    strategy.run([&] { optimizer.minimize(net->forward(batch(step)).square().mean(), net); });
  }
}

Floats outputs(const TorchModule<Normed>& net) {
  net->eval();
  const Floats found = floats(net->forward(torch::tensor({{1.f, 2.f}, {-3.f, 0.5f}})));
  net->train();
  return found;
}

Floats all_values(const TorchModule<Normed>& net) {
  Floats all;
  for (const auto& [name, variable] : net.named_variables()) {
    for (const float value : cast(variable.read_value(), kFloat32).to_vector<float>()) {
      all.push_back(value);
    }
  }
  return all;
}

TEST(TorchStatistics, AreEqualInAllCopiesAfterARun) {
  MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});
  const auto scope = strategy.scope();
  const TorchModule<Normed> net;
  torch::Tensor expected = torch::zeros({2});
  strategy.run([&] { net->forward(batch(0)); });
  const auto means = strategy.run([&] { return Tensor(batch(0).mean(0)); });
  for (size_t i = 0; i < 3; ++i) expected += 0.1 * torch::Tensor(means[i]) / 3;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::allclose(net.copy(i).norm->running_mean, expected));
    EXPECT_EQ(floats(net.copy(i).norm->running_mean), floats(net.copy(0).norm->running_mean));
    EXPECT_EQ(floats(net.copy(i).norm->running_var), floats(net.copy(0).norm->running_var));
    EXPECT_EQ(net.copy(i).norm->num_batches_tracked.item<int64_t>(), 1);
  }
}

TEST(TorchStatistics, AreOneForEvaluationOnAllWorkers) {
  std::vector<Floats> found(2);
  std::vector<Floats> of_chief_alone(2);
  test::on_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        const TorchModule<Normed> net;
        train(strategy, net, 0, 5);
        const auto id = static_cast<size_t>(strategy.worker_id());
        found[id] = outputs(net);
        if (strategy.is_chief()) of_chief_alone[id] = outputs(net);  // meets no other worker
        train(strategy, net, 5, 6);
      },
      test::kTwoReplicas);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(of_chief_alone[0], found[0]);
}

TEST(TorchStatistics, AreThoseThatACheckpointKeeps) {
  const TemporaryDirectory directory;
  MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});
  const auto scope = strategy.scope();
  const TorchModule<Normed> net;
  train(strategy, net, 0, 3);
  const Floats saved = all_values(net);
  const Floats evaluated = outputs(net);
  const std::string prefix = Checkpoint({{"net", net}}).save(directory.path() + "/model");
  train(strategy, net, 3, 6);
  const Floats uninterrupted = all_values(net);
  const TorchModule<Normed> resumed;
  Checkpoint({{"net", resumed}}).restore(prefix).assert_existing_objects_matched();
  EXPECT_EQ(all_values(resumed), saved);  // bit for bit
  EXPECT_EQ(outputs(resumed), evaluated);
  train(strategy, resumed, 3, 6);
  EXPECT_EQ(all_values(resumed), uninterrupted);
}

// Workers can differ in what they write, as when one has no data.
TEST(TorchStatistics, AreEqualWhicheverWorkersWroteThem) {
  std::vector<Floats> found(2);
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const TorchModule<Normed> net;
    const int id = strategy.worker_id();
    for (int step = 0; step < 8; ++step) {
      strategy.run([&] {
        if (step / 2 != id) net->norm->forward(batch(step));
        if (step % 3 == id) net->mask.fill_(step);
      });
    }
    found[static_cast<size_t>(id)] = all_values(net);
  });
  EXPECT_EQ(found[0], found[1]);
}

struct Large : torch::nn::Module {
  Large() : a(register_parameter("a", torch::zeros({1 << 20}))) {}
  torch::Tensor a;
};

// The thread that saves writes the large variable first; the module changes meanwhile.
TEST(TorchModule, IsSavedAsItWasWhenAnAsynchronousSaveBegan) {
  const TemporaryDirectory directory;
  const Variable before(Tensor(torch::ones({1 << 22})));
  const TorchModule<Large> net;
  Checkpoint checkpoint({{"before", before}, {"net", net}}, {.asynchronous = true});
  const std::string prefix = checkpoint.save(directory.path() + "/model");
  net->a.data().fill_(1);
  checkpoint.wait();
  EXPECT_EQ(sum(CheckpointReader(prefix).read("net/a")).to<float>(), 0);
}

// Of two replicas that have made two steps.
struct TrainedStatistics : testing::Test {
  TrainedStatistics() {
    train(strategy, net, 0, 2);
    before = all_values(net);
  }
  MirroredStrategy strategy = MirroredStrategy(std::vector<std::string>{"CPU:0", "CPU:1"});
  const StrategyScope scope = strategy.scope();
  const TorchModule<Normed> net;
  Floats before;
};

TEST_F(TrainedStatistics, DoNotChangeInEvaluation) {
  net->eval();
  strategy.run([&] { net->forward(batch(0)); });
  EXPECT_EQ(all_values(net), before);
}

TEST_F(TrainedStatistics, KeepTheirValueInForwardPassesOutsideOfRun) {
  const auto forward = [&] { net->forward(torch::ones({2, 2})); };  // in training mode
  ::testing::internal::CaptureStderr();
  forward();
  strategy.run([] {});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("'norm.running_mean' was changed outside of run()"), std::string::npos) << log;
  EXPECT_EQ(all_values(net), before);
  forward();
  EXPECT_EQ(all_values(net), before);  // what a checkpoint keeps
  forward();
  EXPECT_EQ(net.buffers()[1].read_value().to_vector<float>(),
            Floats(before.end() - 5, before.end() - 3));
}

TEST_F(TrainedStatistics, KeepTheirValueInARunThatFails) {
  EXPECT_ERROR(Code::Internal, "power cut", strategy.run([&] {
    net->forward(batch(0));
    net->mask.fill_(7);
    throw Error(Code::Internal, "power cut");
  }));
  EXPECT_EQ(all_values(net), before);
}

// The worker whose step is good learns of the failure when the workers make the statistics equal.
TEST(TorchStatistics, KeepTheirValueInAStepThatFailsOnAnotherWorker) {
  ::testing::internal::CaptureStderr();
  test::run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const TorchModule<Normed> net;
    train(strategy, net, 0, 2);
    const Floats before = all_values(net);
    const Status status = capture_status([&] {
      strategy.run([&] {
        net->forward(batch(2));
        net->mask.fill_(7);
        if (strategy.worker_id() == 1) throw Error(Code::Internal, "power cut");
      });
    });
    EXPECT_NE(status.message.find("power cut"), std::string::npos) << status;
    EXPECT_EQ(all_values(net), before);
    outputs(net);  // a program that makes no forward pass outside of run(), except in evaluation
    EXPECT_EQ(all_values(net), before);
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("changed outside of run()"), std::string::npos) << log;
}

// On the worker whose step throws, and on the worker that hears of it.
TEST(TorchErrors, HaveNoBacktrace) {
  const auto statuses = test::run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const TorchModule<Normed> net;
    const int64_t rows = strategy.worker_id() == 1 ? 1 : 4;
    strategy.run([&] { net->forward(torch::ones({rows, 2})); });
  });
  EXPECT_TRUE(statuses[1].message.starts_with("Expected more than 1 value per channel"))
      << statuses[1];
  for (const Status& status : statuses) {
    EXPECT_NE(status.message.find("Expected more than 1 value per channel"), std::string::npos)
        << status;
    EXPECT_EQ(status.message.find("Exception raised from"), std::string::npos) << status;
    EXPECT_EQ(status.message.find("frame #"), std::string::npos) << status;
  }
}

// No other replica would follow, and no forward pass makes such a change by itself.
TEST_F(TrainedStatistics, OtherBuffersChangedOutsideOfRunAreNamed) {
  net->mask.fill_(7);
  EXPECT_ERROR(Code::FailedPrecondition, "buffer 'mask' was changed outside of run()",
               net->forward(torch::ones({2, 2})));
  EXPECT_ERROR(Code::FailedPrecondition, "net.configure(f)", strategy.run([] {}));
}

struct Masked : torch::nn::Module {
  Masked() : mask(register_buffer("mask", torch::ones({1 << 16}))) {}
  torch::Tensor mask;
};

TEST(TorchStatistics, OfLargeBuffersAreEqualAfterARun) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const TorchModule<Masked> net;
  for (int step = 0; step < 2; ++step) {
    strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      if (step == id) net->mask.data().mul_(3);
    });
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(net.copy(i).mask.sum().item<float>(), 2 << step << 16) << step;
    }
  }
  net->mask[7] = 0;
  EXPECT_ERROR(Code::FailedPrecondition, "buffer 'mask'", strategy.run([] {}));
}

TEST(TorchStatistics, OfOneReplicaAreTorchs) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  const TorchModule<Normed> net;
  const torch::nn::BatchNorm1d plain(2);
  const torch::Tensor x = torch::tensor({{1.f, 2.f}, {-3.f, 0.5f}});
  torch::nn::BatchNorm1d(plain)->forward(x);
  net->forward(x);
  strategy.run([] {});
  EXPECT_EQ(floats(net->norm->running_mean), floats(plain->running_mean));
}

// Two norms, one after the other, over images.
struct Images : torch::nn::Module {
  Images()
      : first(register_module("first", torch::nn::BatchNorm2d(3))),
        conv(register_module("conv", torch::nn::Conv2d(3, 2, 2))),
        second(register_module(
            "second", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(2).affine(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(conv(first(x)))); }
  torch::nn::BatchNorm2d first;
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d second;
};

torch::Tensor images() {
  return torch::sin(torch::arange(6 * 3 * 4 * 4, torch::kFloat32)).reshape({6, 3, 4, 4});
}

// What the module has learned from the images, which the replicas share out as `ends` says.
Floats learned(Strategy& strategy, const TorchModuleOptions& options,
               const std::vector<int64_t>& ends) {
  const auto scope = strategy.scope();
  const TorchModule<Images> net{options};
  net.configure([](Images& first) {
    for (torch::Tensor each : first.parameters()) {
      each.copy_(torch::cos(torch::arange(each.numel())).reshape(each.sizes()));
    }
  });
  TorchOptimizer<torch::optim::SGD> optimizer(net, torch::optim::SGDOptions(0.5));
  for (int step = 0; step < 3; ++step) {
    strategy.run([&] {
      const auto id = static_cast<size_t>(get_replica_context()->replica_id_in_sync_group());
      const torch::Tensor own = images().slice(0, id == 0 ? 0 : ends[id - 1], ends[id]);
      optimizer.minimize((net->forward(own) - 0.5).pow(3).sum() / 100, net);
    });
  }
  Floats all;
  for (const auto& [name, variable] : net.named_variables()) {
    if (name.ends_with("num_batches_tracked")) continue;
    for (const float value : variable.read_value().to_vector<float>()) all.push_back(value);
  }
  return all;
}

void expect_near(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(b[i])));
}

Floats learned_from_the_whole_batch() {
  OneDeviceStrategy one("CPU:0");
  return learned(one, {}, {6});
}

TEST(SyncBatchNorm, TrainsAsOneReplicaOnTheWholeBatch) {
  const Floats whole = learned_from_the_whole_batch();
  MirroredStrategy two({"CPU:0", "CPU:1"});
  expect_near(learned(two, {.sync_batch_norm = true}, {2, 6}), whole);
  MirroredStrategy three({"CPU:0", "CPU:1", "CPU:2"});
  expect_near(learned(three, {.sync_batch_norm = true}, {1, 3, 6}), whole);
  const Floats apart = learned(two, {}, {2, 6});
  EXPECT_GT(std::abs(apart[0] - whole[0]), 1e-3);  // each replica with its own statistics
}

TEST(SyncBatchNorm, TrainsOnSeveralWorkers) {
  const Floats whole = learned_from_the_whole_batch();
  std::vector<Floats> found(2);
  for (const bool overlap : {false, true}) {
    test::on_workers(2,
                     [&](MultiWorkerMirroredStrategy& strategy) {
                       found[static_cast<size_t>(strategy.worker_id())] =
                           learned(strategy, {.sync_batch_norm = true}, {1, 2, 4, 6});
                     },
                     {.communication = {.bytes_per_pack = 1},
                      .devices = {"CPU:0", "CPU:1"},
                      .overlap = overlap});
    EXPECT_EQ(found[0], found[1]);
    expect_near(found[0], whole);
  }
}

TEST(SyncBatchNorm, NeedsABatchNorm) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  EXPECT_ERROR(
      Code::InvalidArgument, "has none",
      TorchModule<torch::nn::LinearImpl>(TorchModuleOptions{.sync_batch_norm = true}, 2, 1));
}

}  // namespace
