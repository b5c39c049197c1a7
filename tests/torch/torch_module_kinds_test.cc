// Modules of every kind under strategies: frozen and shared parameters, modes, other dtypes.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/temporary_file.h"

using namespace cohort;

namespace {

using Doubles = std::vector<double>;

Doubles values(const Tensor& tensor) { return tensor.to_vector<double>(); }

// A random frozen layer below one that learns.
struct Features : torch::nn::Module {
  Features()
      : fixed(register_parameter("fixed", torch::randn({2, 3}), /*requires_grad=*/false)),
        top(register_module("top", torch::nn::Linear(3, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) { return top(torch::matmul(x, fixed)); }
  torch::Tensor fixed;
  torch::nn::Linear top;
};

// One weight used in two places.
struct Tied : torch::nn::Module {
  Tied() : first(register_module("first", torch::nn::Linear(2, 2))) {
    second = register_module("second", first.ptr());
  }
  torch::Tensor forward(const torch::Tensor& x) { return second->forward(first(x)); }
  torch::nn::Linear first;
  std::shared_ptr<torch::nn::LinearImpl> second;
};

struct Dropped : torch::nn::Module {
  Dropped()
      : drop(register_module("drop", torch::nn::Dropout(0.5))),
        scale(register_parameter("scale", torch::ones({1}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return drop(x) * scale; }
  torch::nn::Dropout drop;
  torch::Tensor scale;
};

struct Scales : torch::nn::Module {
  explicit Scales(torch::Dtype dtype)
      : a(register_parameter("a", torch::ones({2, 3}, dtype).t())),  // rows are not contiguous
        b(register_parameter("b", torch::ones({}, dtype))) {}
  torch::Tensor a, b;
};

struct Bare : torch::nn::Module {};

MirroredStrategy& two() {
  static MirroredStrategy strategy({"CPU:0", "CPU:1"});
  return strategy;
}

TEST(TorchModule, HasEqualFrozenParameters) {
  MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});
  const auto scope = strategy.scope();
  const TorchModule<Features> net;
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_TRUE(torch::equal(net.copy(0).fixed, net.copy(i).fixed));
  }
  EXPECT_EQ(net.variables().size(), 2u);  // what learns
}

TEST(TorchModule, KeepsFrozenParametersInCheckpoints) {
  const TemporaryDirectory directory;
  const auto scope = two().scope();
  const TorchModule<Features> saved;
  const std::string prefix = Checkpoint({{"net", saved}}).save(directory.path() + "/model");
  const TorchModule<Features> restored;
  Checkpoint({{"net", restored}}).restore(prefix).assert_existing_objects_matched();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(torch::equal(saved.copy(0).fixed, restored.copy(i).fixed));
  }
}

TEST(TorchModule, UpdatesASharedParameterOnce) {
  const auto scope = two().scope();
  const TorchModule<Tied> net;
  ASSERT_EQ(net.variables().size(), 2u);  // weight and bias
  EXPECT_EQ(net.variables()[0].name(), "first.weight");
  const torch::Tensor start = net->first->weight.detach().clone();
  // torch alone, on both replicas' losses.
  torch::Tensor weight = start.clone().set_requires_grad(true);
  const torch::Tensor bias = net->first->bias.detach().clone();
  const torch::Tensor x = torch::tensor({{1.f, 2.f}});
  const auto loss = [&](const torch::Tensor& w) {
    return torch::linear(torch::linear(x, w, bias), w, bias).sum();
  };
  (2 * loss(weight)).backward();
  const torch::Tensor expected = start - 0.5 * weight.grad();
  const auto step = [&](auto& optimizer) {
    two().run([&] { optimizer.minimize(net->forward(x).sum(), net); });
  };
  optim::Sgd ours({.learning_rate = 0.5});
  step(ours);
  EXPECT_TRUE(torch::allclose(net->first->weight, expected));
  EXPECT_TRUE(net->second->weight.is_same(net->first->weight));
  std::vector<Variable> variables = net.variables();
  variables[0].assign(Tensor(start));
  variables[1].assign(Tensor(bias));
  TorchOptimizer<torch::optim::SGD> theirs(net, torch::optim::SGDOptions(0.5));
  step(theirs);
  EXPECT_TRUE(torch::allclose(net->first->weight, expected));
}

TEST(TorchModule, HasOneModeInAllCopies) {
  const auto scope = two().scope();
  const TorchModule<Dropped> net;
  const auto passes_all = [&] {
    const auto same = two().run([&] {
      const torch::Tensor x = torch::ones({1000});
      return torch::equal(net->forward(x), x);
    });
    EXPECT_EQ(same[0], same[1]);
    return same[0] && same[1];
  };
  EXPECT_FALSE(passes_all());
  net->eval();
  EXPECT_TRUE(passes_all());
  net->train();
  EXPECT_FALSE(passes_all());
  net->drop->eval();  // a part alone
  EXPECT_TRUE(passes_all());
  EXPECT_TRUE(net.copy(1).is_training());
  Dropped& kept = *net;
  EXPECT_TRUE(passes_all());
  kept.train();
  EXPECT_FALSE(passes_all());
  kept.eval();
  EXPECT_TRUE(passes_all());
}

TEST(TorchModule, LetsEveryReplicaSetItsMode) {
  const auto scope = two().scope();
  const TorchModule<Dropped> net;
  two().run([&] { net->eval(); });
  EXPECT_FALSE(net.copy(0).is_training());
  EXPECT_FALSE(net.copy(1).is_training());
}

TEST(TorchModule, FreezesAParameterInAllCopies) {
  const auto scope = two().scope();
  const TorchModule<Scales> net{torch::kFloat32};
  net->a.set_requires_grad(false);
  optim::Sgd optimizer({.learning_rate = 0.25});
  const auto step = [&] { two().run([&] { optimizer.minimize(net->a.sum() + net->b, net); }); };
  step();
  EXPECT_EQ(values(net.variables()[0]), Doubles(6, 1));
  EXPECT_EQ(values(net.variables()[1]), Doubles{0.5});
  net->a.set_requires_grad(true);
  step();
  EXPECT_EQ(values(net.variables()[0]), Doubles(6, 0.5));
  EXPECT_EQ(values(net.variables()[1]), Doubles{0});
  torch::Tensor kept = net->b;
  step();
  kept.set_requires_grad(false);
  step();
  EXPECT_EQ(values(net.variables()[0]), Doubles(6, -0.5));
  EXPECT_EQ(values(net.variables()[1]), Doubles{-0.5});
}

class TorchModuleOfDtype : public testing::TestWithParam<torch::Dtype> {};

TEST_P(TorchModuleOfDtype, Trains) {
  const auto scope = two().scope();
  const TorchModule<Scales> net{GetParam()};
  optim::Sgd ours({.learning_rate = 0.25});
  TorchOptimizer<torch::optim::SGD> theirs(net, torch::optim::SGDOptions(0.25));
  two().run([&] {
    const auto row = torch::arange(1, 4, torch::TensorOptions(GetParam())).unsqueeze(1);
    const auto loss = [&] { return (net->a * row).sum() + net->b; };
    ours.minimize(loss(), net);
    theirs.minimize(loss(), net);
  });
  EXPECT_EQ(values(cast(net.variables()[0], kFloat64)), (Doubles{0, 0, -1, -1, -2, -2}));
  EXPECT_EQ(values(cast(net.variables()[1], kFloat64)), Doubles{0});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TorchModuleOfDtype,
                         testing::Values(torch::kFloat32, torch::kFloat64, torch::kBFloat16));

TEST(TorchModule, NamesALossThatIsNotOneNumber) {
  const auto scope = two().scope();
  const TorchModule<Scales> net{torch::kFloat32};
  optim::Sgd ours({.learning_rate = 0.25});
  TorchOptimizer<torch::optim::SGD> theirs(net, torch::optim::SGDOptions(0.25));
  EXPECT_ERROR(Code::InvalidArgument, "shape (3, 2)",
               two().run([&] { ours.minimize(net->a * 2, net); }));
  EXPECT_ERROR(Code::InvalidArgument, "shape (3, 2)",
               two().run([&] { theirs.minimize(net->a * 2, net); }));
}

// A replica whose batch is empty may have nothing to learn from.
TEST(TorchModule, TakesALossWithoutAGradientFromSomeReplicas) {
  const auto scope = two().scope();
  const TorchModule<Scales> net{torch::kFloat32};
  optim::Sgd ours({.learning_rate = 0.25});
  TorchOptimizer<torch::optim::SGD> theirs(net, torch::optim::SGDOptions(0.25));
  const auto loss = [&] {
    const bool first = get_replica_context()->replica_id_in_sync_group() == 0;
    return first ? net->b * 1 : torch::zeros({});
  };
  two().run([&] {
    ours.minimize(loss(), net);
    theirs.minimize(loss(), net);
  });
  EXPECT_EQ(values(net.variables()[1]), Doubles{0.5});
  EXPECT_EQ(net.copy(1).b.item<float>(), 0.5);
  EXPECT_ERROR(Code::InvalidArgument, "none of the 2 variables has a gradient",
               two().run([&] { ours.minimize(torch::zeros({}), net); }));
  EXPECT_ERROR(Code::InvalidArgument, "none of the 2 variables has a gradient",
               two().run([&] { theirs.minimize(torch::zeros({}), net); }));
}

TEST(TorchModule, WithoutParametersCannotBeTrained) {
  const auto scope = two().scope();
  const TorchModule<Bare> net;
  EXPECT_TRUE(net.variables().empty());
  optim::Sgd ours({.learning_rate = 0.25});
  EXPECT_ERROR(Code::InvalidArgument, "none of the 0 variables",
               two().run([&] { ours.minimize(torch::zeros({}), net); }));
}

struct Normed : torch::nn::Module {
  Normed() : norm(register_module("norm", torch::nn::BatchNorm1d(1))) {}
  torch::nn::BatchNorm1d norm;
};

// Replicas must not write to one statistic at the same time.
TEST(TorchModule, AveragesBuffersInCentralStorage) {
  CentralStorageStrategy strategy({.compute_devices = {"CPU:0", "CPU:1"}});
  const auto scope = strategy.scope();
  const TorchModule<Normed> net;
  const auto step = [&] {
    strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      net->norm(torch::tensor({{10.f * (id + 1)}, {10.f * (id + 1)}}));
    });
  };
  step();
  const Variable& mean = net.buffers()[0];
  EXPECT_EQ(values(mean), Doubles{1.5});
  EXPECT_EQ(net.copy(1).norm->running_mean.item<float>(), 1.5);
  const Tensor given({0.5f});
  Variable(mean).assign(given);
  step();
  EXPECT_FLOAT_EQ(Tensor(mean).to<float>(), 0.9f * 0.5f + 1.5f);
  EXPECT_FLOAT_EQ(net.copy(1).norm->running_mean.item<float>(), 0.9f * 0.5f + 1.5f);
  EXPECT_EQ(values(given), Doubles{0.5});  // not shared
}

TEST(TorchModule, LeavesAloneWhatItsCentralVariablesWereGiven) {
  CentralStorageStrategy strategy({.compute_devices = {"CPU:0", "CPU:1"}});
  const auto scope = strategy.scope();
  const TorchModule<Scales> net{torch::kFloat32};
  TorchOptimizer<torch::optim::SGD> optimizer(net, torch::optim::SGDOptions(0.25));
  const Tensor given = Tensor(3.f) * 1.f;
  Variable(net.variables()[1]).assign(given);
  strategy.run([&] { optimizer.minimize(net->b * 1, net); });
  EXPECT_EQ(values(net.variables()[1]), Doubles{2.5});
  EXPECT_EQ(given.to<float>(), 3);
}

// torch adds up what backward() finds; the replicas meet once, in the update.
TEST(TorchModule, AccumulatesGradientsOverSteps) {
  const auto scope = two().scope();
  const TorchModule<Scales> net{torch::kFloat64};
  optim::Sgd optimizer({.learning_rate = 0.25});
  const auto accumulate = [&](int step) {
    (net->b * (step + get_replica_context()->replica_id_in_sync_group())).backward();
  };
  const auto apply = [&] {
    Gradients gradients;
    for (torch::Tensor parameter : net.parameters()) {
      gradients.push_back(parameter.grad().defined() ? Gradient(Tensor(parameter.grad()))
                                                     : Gradient());
      parameter.mutable_grad() = torch::Tensor();
    }
    optimizer.apply_gradients(gradients, net.variables());
  };
  for (int update = 0; update < 2; ++update) {
    for (int step = 0; step < 3; ++step) two().run(accumulate, step);
    two().run(apply);
  }
  EXPECT_EQ(values(net.variables()[1]), Doubles{1 - 0.25 * 2 * (0 + 1 + 1 + 2 + 2 + 3)});
  EXPECT_EQ(net.copy(1).b.item<double>(), -3.5);
}

TEST(TorchModule, OfPartsThatCameInHasCopiesOfThem) {
  const auto scope = two().scope();
  const TorchModule<torch::nn::SequentialImpl> net(torch::nn::Linear(2, 1), torch::nn::Tanh());
  EXPECT_FALSE(net.parameters(0)[0].is_same(net.parameters(1)[0]));
  EXPECT_NE(net.parameters(0)[0].data_ptr(), net.parameters(1)[0].data_ptr());
  EXPECT_TRUE(torch::equal(net.parameters(0)[0], net.parameters(1)[0]));
  const torch::Tensor x = torch::tensor({{1.f, 2.f}});
  const auto outputs = two().run([&] { return Tensor(net->forward(x).detach()); });
  EXPECT_EQ(values(outputs[0]), values(outputs[1]));
}

struct Holder : torch::nn::Module {
  explicit Holder(const torch::nn::Linear& given) : part(register_module("part", given)) {}
  torch::nn::Linear part;
};

TEST(TorchModule, NamesAPartThatAllCopiesWouldShare) {
  const auto scope = two().scope();
  EXPECT_ERROR(Code::InvalidArgument, "'part.weight'",
               TorchModule<Holder>(torch::nn::Linear(2, 1)));
}

TEST(TorchModule, OfAnotherScopeIsNamed) {
  const TorchModule<Scales> net{torch::kFloat32};  // of no strategy
  optim::Sgd optimizer({.learning_rate = 0.25});
  EXPECT_ERROR(Code::FailedPrecondition, "replica 1 has no copy",
               two().run([&] { return net->b.item<float>(); }));
  EXPECT_ERROR(Code::FailedPrecondition, "replica 1 has no copy",
               two().run([&] { return net.parameters().size(); }));
  EXPECT_ERROR(Code::InvalidArgument, "1", net.copy(1));
}

TEST(TorchModule, StaysWhatItIsWhenMoved) {
  const auto scope = two().scope();
  TorchModule<Scales> net{torch::kFloat32};
  TorchModule<Scales> moved{torch::kFloat64};
  moved = std::move(net);
  optim::Sgd optimizer({.learning_rate = 0.25});
  two().run([&] { optimizer.minimize(moved->b * 1, moved); });
  EXPECT_EQ(moved.copy(1).b.item<float>(), 0.5);
}

}  // namespace
