// What torch users write by habit, and what would train one copy of a module alone.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

using namespace cohort;

namespace {

using Doubles = std::vector<double>;

Doubles values(const Tensor& tensor) { return tensor.to_vector<double>(); }

struct Scales : torch::nn::Module {
  Scales()
      : a(register_parameter("a", torch::ones({2}))),
        b(register_parameter("b", torch::ones({1}))),
        fixed(register_parameter("fixed", torch::ones({1}), /*requires_grad=*/false)) {}
  torch::Tensor loss() { return a.sum() + b.sum(); }
  torch::Tensor a, b, fixed;
};

MirroredStrategy& two() {
  static MirroredStrategy strategy({"CPU:0", "CPU:1"});
  return strategy;
}

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

using Theirs = TorchOptimizer<torch::optim::SGD>;
const torch::optim::SGDOptions kQuarter(0.25);

TEST(TorchHabits, StepsTakeTorchTensorsOfADataset) {
  const auto rows = data::from_tensor_slices(ones({4, 2}), ones({4, 1})).batch(4);
  const auto sum_both = [](at::Tensor x, const torch::Tensor& y) { return Tensor((x + y).sum()); };
  const auto doubled = rows.map([](at::Tensor x, at::Tensor y) { return std::pair(x * 2, y); });
  for (const auto& batch : two().distribute_dataset(doubled)) {
    EXPECT_EQ(two().reduce(ReduceOp::Sum, two().run(sum_both, batch)).to<float>(), 24.f);
    const auto scaled = two().run(
        [](const at::Tensor& x, at::Tensor, float by) { return (x * by).sum().item<float>(); },
        batch, 3.f);
    EXPECT_EQ(scaled[1], 24.f);
  }
}

TEST(TorchHabits, StepsOfTheCopysOwnOptimizerAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  Theirs optimizer(net, kQuarter);
  const auto train = [&] {
    net->loss().backward();
    optimizer->step();
  };
  EXPECT_ERROR(Code::FailedPrecondition, "'a' of local replica 0 was written past its variable",
               two().run(train));
  EXPECT_ERROR(Code::FailedPrecondition, "minimize(loss, net)", net->loss());
  EXPECT_ERROR(Code::FailedPrecondition, "minimize(loss, net)", two().run([&] { net->loss(); }));
}

TEST(TorchHabits, StepsOfARawOptimizerOutsideOfRunAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  torch::optim::SGD raw(net->parameters(), 0.1);
  net->loss().backward();
  raw.step();
  EXPECT_ERROR(Code::FailedPrecondition, "'a' of local replica 0", net->loss());
  EXPECT_ERROR(Code::FailedPrecondition, "'a' of local replica 0", two().run([] {}));
}

// The workers' weights would drift apart.
TEST(TorchHabits, StepsOfARawOptimizerOnWorkersOfOneReplicaAreNamed) {
  for (const Status& status : test::run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
         const auto scope = strategy.scope();
         const TorchModule<Scales> net;
         torch::optim::SGD raw(net->parameters(), 0.1);
         strategy.run([&] {
           (net->loss() * (replica_id() + 1)).backward();
           raw.step();
         });
       })) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("'a' of local replica 0"), std::string::npos) << status.message;
  }
}

// The update after it would hide the write.
TEST(TorchHabits, WritesBeforeAnUpdateAreNamed) {
  const auto write_then = [](auto update) {
    const auto scope = two().scope();
    const TorchModule<Scales> net;
    EXPECT_ERROR(Code::FailedPrecondition, "was written past its variable", two().run([&] {
      const torch::NoGradGuard unrecorded;
      net->a.add_(replica_id() + 1);
      const torch::AutoGradMode recorded(true);
      update(net);
    }));
  };
  write_then([](const TorchModule<Scales>& net) {
    optim::Sgd({.learning_rate = 0.25}).minimize(net->loss(), net);
  });
  write_then([](const TorchModule<Scales>& net) {
    net.configure([](Scales& own) { own.a.clamp_(-2, 2); });
  });
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  Theirs theirs(net, kQuarter);
  EXPECT_ERROR(Code::FailedPrecondition, "was written past its variable", two().run([&] {
    torch::Tensor(net->a.data()).add_(replica_id() + 1);
    theirs.minimize(net->loss(), net);
  }));
}

struct Long : torch::nn::Module {
  Long() : a(register_parameter("a", torch::ones({1000}))) {}
  torch::Tensor a;
};

// Torch does not count such writes, and a look at a few elements can miss one.
TEST(TorchHabits, RepeatedWritesOfOneElementAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Long> net;
  Theirs theirs(net, kQuarter);
  const auto train = [&] {
    for (int step = 0; step < 1000; ++step) {
      two().run([&] {
        net->a.data()[3].add_(1);
        theirs.minimize(net->a.sum(), net);
      });
    }
  };
  EXPECT_ERROR(Code::FailedPrecondition, "'a' of local replica", train());
}

TEST(TorchHabits, RawStepsThatChangeOneElementAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Long> net;
  torch::optim::SGD raw(net->parameters(), 0.1);
  const auto train = [&] {
    for (int step = 0; step < 2; ++step) {
      two().run([&] {
        if (replica_id() != 0) return;
        raw.zero_grad();
        (net->a[3] * 2).backward();
        raw.step();
      });
    }
  };
  EXPECT_ERROR(Code::FailedPrecondition, "'a' of local replica 0", train());
}

struct Table : torch::nn::Module {
  Table() : rows(register_module("rows", torch::nn::Embedding(20000, 1))) {}
  torch::Tensor loss(int64_t row) { return rows(torch::full({4}, row, torch::kInt64)).sum(); }
  torch::nn::Embedding rows;
};

// One row of many, and no gradient is left that would show it.
TEST(TorchHabits, RawStepsThatLeaveNoGradientAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Table> net;
  torch::optim::SGD first(net.copy(0).parameters(), 0.1);
  torch::optim::SGD second(net.copy(1).parameters(), 0.1);
  EXPECT_ERROR(Code::FailedPrecondition, "'rows.weight' of local replica 0", two().run([&] {
    net->loss(100 + 7 * replica_id()).backward();
    (replica_id() == 0 ? first : second).step();
    net->zero_grad(true);
  }));
}

TEST(TorchHabits, RawStepsThatLeaveNoGradientOutsideOfRunAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Table> net;
  torch::optim::SGD raw(net->parameters(), 0.1);
  net->loss(100).backward();
  raw.step();
  raw.zero_grad();
  for (torch::Tensor parameter : net.copy(0).parameters()) parameter.mutable_grad().reset();
  EXPECT_ERROR(Code::FailedPrecondition, "'rows.weight' of local replica 0", two().run([] {}));
}

TEST(TorchHabits, GradientsThatAreOnlyLookedAtAreNotNamed) {
  const auto scope = two().scope();
  const TorchModule<Table> net;
  Theirs theirs(net, kQuarter);
  for (int step = 0; step < 3; ++step) {
    two().run([&] {
      net->loss(100).backward();
      net->zero_grad(true);
      theirs.minimize(net->loss(100 + replica_id()), net);
      net->loss(100).backward();
      net->zero_grad(true);
    });
  }
  EXPECT_TRUE(torch::equal(net.copy(0).rows->weight, net.copy(1).rows->weight));
}

TEST(TorchHabits, WritesBeforeACheckpointAreNamed) {
  const TemporaryDirectory directory;
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  Checkpoint checkpoint({{"net", net}});
  net->a.data().fill_(3);
  EXPECT_ERROR(Code::FailedPrecondition, "was written past its variable",
               checkpoint.save(directory.path() + "/model"));
}

TEST(TorchHabits, WritesOfFrozenParametersAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  EXPECT_ERROR(Code::FailedPrecondition, "'fixed' of local replica 1", two().run([&] {
    if (replica_id() == 1) net->fixed.fill_(2);
  }));
}

TEST(TorchHabits, OtherMemoryForAParameterIsNamed) {
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  net->a.set_data(torch::zeros({2}));  // as Module::load() does
  EXPECT_ERROR(Code::FailedPrecondition, "'a' of local replica 0", net->loss());
}

TEST(TorchHabits, OtherMemoryIsTakenOverByTheVariablesOfOneReplica) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  const TorchModule<Scales> net;
  net->a.set_data(torch::full({2}, 3.f));
  EXPECT_EQ(net->loss().item<float>(), 7);
  EXPECT_EQ(values(net.variables()[0]), (Doubles{3, 3}));
  strategy.run([&] { net->a.detach().add_(1); });
  EXPECT_EQ(values(net.variables()[0]), (Doubles{4, 4}));
}

TEST(TorchHabits, UpdatesThatAreMeantAreNotNamed) {
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  for (Strategy* strategy : std::initializer_list<Strategy*>{&two(), &central}) {
    const auto scope = strategy->scope();
    const TorchModule<Scales> net;
    Theirs theirs(net, kQuarter);
    optim::Sgd ours({.learning_rate = 0.25});
    for (int i = 0; i < 2; ++i) {
      strategy->run([&] {
        theirs.minimize(net->loss(), net);
        ours.minimize(net->loss(), net);
      });
    }
    Variable(net.variables()[1]).assign_add(1.f);
    strategy->run([&] { theirs.minimize(net->loss(), net); });
    EXPECT_EQ(values(net.variables()[0]), (Doubles{-1.5, -1.5}));  // 1 - 5 / 2
    EXPECT_EQ(values(net.variables()[1]), Doubles{-0.5});
  }
}

TEST(TorchHabits, GradientsThatBackwardLeftAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  Theirs theirs(net, kQuarter);
  optim::Sgd ours({.learning_rate = 0.25});
  const auto train = [&](auto& optimizer) {
    const torch::Tensor loss = net->loss();
    loss.backward({}, /*retain_graph=*/true);
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1);
    optimizer.minimize(loss, net);
  };
  EXPECT_ERROR(Code::InvalidArgument, "parameter 'a' has a gradient already",
               two().run([&] { train(theirs); }));
  two().run([&] { net->zero_grad(true); });
  EXPECT_ERROR(Code::InvalidArgument, "parameter 'a' has a gradient already",
               two().run([&] { train(ours); }));
}

TEST(TorchHabits, SummedGradientsCanBeLimited) {
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  Theirs optimizer(net, torch::optim::SGDOptions(1));
  const auto norms = two().run([&] {
    double norm = 0;
    optimizer.minimize(net->a.sum() * (replica_id() + 1), net,
                       [&](const std::vector<torch::Tensor>& parameters) {
                         norm = torch::nn::utils::clip_grad_norm_(parameters, 1.5 * std::sqrt(2));
                       });
    return norm;
  });
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(norms[i], 3 * std::sqrt(2), 1e-5);  // of (3, 3), the sum
    EXPECT_NEAR(net.copy(i).a[0].item<double>(), -0.5, 1e-5);
  }
}

TEST(TorchHabits, OptionsSetOutsideOfRunReachAllCopies) {
  const auto scope = two().scope();
  const TorchModule<Scales> net;
  Theirs optimizer(net, kQuarter);
  const auto expect_step = [&](double rate) {
    const double before = values(net.variables()[0])[0];
    two().run([&] { optimizer.minimize(net->a.sum(), net); });
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(net.copy(i).a[0].item<double>(), before - 2 * rate);
  };
  optimizer.set_learning_rate(0.5);
  expect_step(0.5);
  static_cast<torch::optim::SGDOptions&>(optimizer->param_groups()[0].options()).lr(0.125);
  expect_step(0.125);
  torch::optim::StepLR schedule(*optimizer, 1, 0.5);  // keeps a reference
  schedule.step();
  expect_step(0.125);
  schedule.step();
  expect_step(0.0625);
}

TEST(TorchHabits, ChangesOfTheModuleReachAllCopies) {
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  for (Strategy* strategy : std::initializer_list<Strategy*>{&two(), &central}) {
    const auto scope = strategy->scope();
    const TorchModule<Scales> net;
    net.configure([](Scales& first) {
      for (torch::Tensor parameter : first.parameters()) parameter.fill_(4);
      first.b.set_data(torch::full({1}, 5.f));
    });
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(net.copy(i).loss().item<float>(), 13);
    EXPECT_EQ(net.copy(1).fixed.item<float>(), 4);
    EXPECT_EQ(values(net.variables()[1]), Doubles{5});
    const auto limit = [&] { net.configure([](Scales& own) { own.a.clamp_(-2, 2); }); };
    if (strategy == &central) {
      EXPECT_ERROR(Code::FailedPrecondition, "configure() outside run()", strategy->run(limit));
      continue;
    }
    strategy->run(limit);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(net.copy(i).loss().item<float>(), 9);
  }
}

TEST(TorchHabits, ChangesOfTheModuleAreTheFirstWorkers) {
  std::vector<Doubles> found(2);
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const TorchModule<Scales> net;
    net.configure([&](Scales& first) { first.a.fill_(7 + strategy.worker_id()); });
    strategy.run([] {});
    found[static_cast<size_t>(strategy.worker_id())] = values(net.variables()[0]);
  });
  EXPECT_EQ(found, (std::vector<Doubles>{{7, 7}, {7, 7}}));
}

TEST(TorchHabits, ChangesThatFailOnOneWorkerFailOnAll) {
  for (const Status& status : test::run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
         const auto scope = strategy.scope();
         const TorchModule<Scales> net;
         net.configure([&](Scales&) {
           if (strategy.worker_id() == 1) throw Error(Code::NotFound, "no such file");
         });
       })) {
    EXPECT_EQ(status.code, Code::NotFound) << status.to_string();
    EXPECT_NE(status.message.find("no such file"), std::string::npos) << status.message;
  }
}

TEST(TorchHabits, ParametersThatWereFrozenWhenTheModuleWasMadeCannotLearn) {
  for (const bool several : {false, true}) {
    OneDeviceStrategy one("CPU:0");
    Strategy& strategy = several ? static_cast<Strategy&>(two()) : one;
    const auto scope = strategy.scope();
    const TorchModule<Scales> net;
    Theirs theirs(net, kQuarter);
    optim::Sgd ours({.learning_rate = 0.25});
    net->fixed.set_requires_grad(true);
    EXPECT_ERROR(Code::FailedPrecondition, "'fixed' was frozen when the module was made",
                 strategy.run([&] { theirs.minimize(net->loss() * net->fixed, net); }));
    EXPECT_ERROR(Code::FailedPrecondition, "'fixed' was frozen when the module was made",
                 strategy.run([&] { ours.minimize(net->loss() * net->fixed, net); }));
  }
}

}  // namespace
