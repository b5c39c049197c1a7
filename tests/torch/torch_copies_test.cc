// Losses of another replica's copy, and copies whose parts were replaced.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

using namespace cohort;

namespace {

using Doubles = std::vector<double>;

Doubles values(const Tensor& tensor) { return tensor.to_vector<double>(); }

struct Net : torch::nn::Module {
  Net()
      : layer(register_module("layer", torch::nn::Linear(2, 1))),
        scale(register_parameter("scale", torch::ones({1}))),
        seen(register_buffer("seen", torch::zeros({1}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return layer(x); }
  torch::nn::Linear layer;
  torch::Tensor scale, seen;
};

MirroredStrategy& two() {
  static MirroredStrategy strategy({"CPU:0", "CPU:1"});
  return strategy;
}

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

torch::Tensor own_batch() { return torch::ones({1, 2}) * (replica_id() + 1); }

using Theirs = TorchOptimizer<torch::optim::SGD>;
const torch::optim::SGDOptions kOne(1);

constexpr const char* kOtherCopy = "depends on 'layer.weight' of local replica 0's copy";

TEST(TorchCopies, ALossOfAnotherReplicasCopyIsNamed) {
  const auto scope = two().scope();
  const TorchModule<Net> net;
  Theirs theirs(net, kOne);
  optim::Sgd ours({.learning_rate = 1});
  const Doubles before = values(net.variables()[1]);
  Net& model = *net;
  EXPECT_ERROR(Code::FailedPrecondition, kOtherCopy,
               two().run([&] { theirs.minimize(model.forward(own_batch()).sum(), net); }));
  EXPECT_ERROR(Code::FailedPrecondition, "net->forward(x)",
               two().run([&] { ours.minimize(model.forward(own_batch()).sum(), net); }));
  EXPECT_EQ(values(net.variables()[1]), before);
  two().run([&] { theirs.minimize(net->forward(own_batch()).sum(), net); });
  EXPECT_NEAR(values(net.variables()[1])[0], before[0] - 3, 1e-5);
}

TEST(TorchCopies, ALossOfAnotherReplicasCopyInPartIsNamed) {
  const auto scope = two().scope();
  const TorchModule<Net> net;
  optim::Sgd ours({.learning_rate = 1});
  const torch::nn::Linear layer = net->layer;
  EXPECT_ERROR(Code::FailedPrecondition, kOtherCopy, two().run([&] {
    const torch::Tensor y = torch::linear(own_batch(), layer->weight);
    ours.minimize(y.sum() * net->scale, net);
  }));
  const torch::Tensor scale = net->scale;  // a leaf is a loss, too
  EXPECT_ERROR(Code::FailedPrecondition, "depends on 'scale' of local replica 0's copy",
               two().run([&] { ours.minimize(scale, net); }));
}

TEST(TorchCopies, ALossOfAnotherReplicasCopyIsNamedOnAllWorkers) {
  for (const bool overlap : {false, true}) {
    for (const Status& status : test::run_workers(
             2,
             [](MultiWorkerMirroredStrategy& strategy) {
               const auto scope = strategy.scope();
               const TorchModule<Net> net;
               optim::Sgd ours({.learning_rate = 1});
               Net& model = *net;
               strategy.run([&] { ours.minimize(model.forward(own_batch()).sum(), net); });
             },
             {.devices = {"CPU:0", "CPU:1"}, .overlap = overlap})) {
      EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
      EXPECT_NE(status.message.find(kOtherCopy), std::string::npos) << status.message;
    }
  }
}

// Of another module, say: its gradient would be dropped, while other replicas learn.
TEST(TorchCopies, ALossOfNoParameterOfTheModuleIsNamed) {
  OneDeviceStrategy one("CPU:0");
  for (Strategy* strategy : std::initializer_list<Strategy*>{&one, &two()}) {
    const auto scope = strategy->scope();
    const TorchModule<Net> net, other;
    Theirs theirs(net, kOne);
    optim::Sgd ours({.learning_rate = 1});
    const auto loss = [&] {
      const bool last = replica_id() + 1 == strategy->num_replicas_in_sync();
      return (last ? other : net)->forward(own_batch()).sum();
    };
    EXPECT_ERROR(Code::InvalidArgument, "depends on none of the 3 parameters",
                 strategy->run([&] { theirs.minimize(loss(), net); }));
    EXPECT_ERROR(Code::InvalidArgument, "depends on none of the 3 parameters",
                 strategy->run([&] { ours.minimize(loss(), net); }));
  }
}

TEST(TorchCopies, ALossMayDependOnOtherModules) {
  const auto scope = two().scope();
  const TorchModule<Net> net, other;
  optim::Sgd ours({.learning_rate = 1});
  const double before = values(net.variables()[0])[0];
  two().run([&] { ours.minimize((net->scale * (other->scale + replica_id())).sum(), net); });
  EXPECT_EQ(values(net.variables()[0])[0], before - 3);
}

// Replaces parts of the first copy, and expects that each next use of the module names `what`.
void expect_named(Strategy& strategy, const std::string& what,
                  const std::function<void(Net&)>& change) {
  const TemporaryDirectory directory;
  const auto scope = strategy.scope();
  const TorchModule<Net> net;
  Theirs theirs(net, kOne);
  change(*net);
  EXPECT_ERROR(Code::FailedPrecondition, what, net->forward(torch::ones({1, 2})));
  EXPECT_ERROR(Code::FailedPrecondition, what, strategy.run([&] {
    theirs.minimize((net->forward(own_batch()) * net->scale).sum(), net);
  }));
  EXPECT_ERROR(Code::FailedPrecondition, what,
               Checkpoint({{"net", net}}).save(directory.path() + "/model"));
}

TEST(TorchCopies, PartsThatWereReplacedAreNamed) {
  OneDeviceStrategy one("CPU:0");
  for (Strategy* strategy : std::initializer_list<Strategy*>{&one, &two()}) {
    expect_named(*strategy, "'layer.weight' of local replica 0 was replaced", [](Net& net) {
      net.layer = net.replace_module("layer", torch::nn::Linear(2, 1));
    });
    expect_named(*strategy, "'extra.weight' of local replica 0 was added",
                 [](Net& net) { net.register_module("extra", torch::nn::Linear(2, 1)); });
    expect_named(*strategy, "'late' of local replica 0 was added",
                 [](Net& net) { net.register_buffer("late", torch::ones({1})); });
    expect_named(*strategy, "'layer.weight' of local replica 0 was removed",
                 [](Net& net) { net.unregister_module("layer"); });
  }
}

TEST(TorchCopies, PartsThatAReplicaReplacedAreNamed) {
  const auto scope = two().scope();
  const TorchModule<Net> net;
  EXPECT_ERROR(Code::FailedPrecondition, "'layer.weight' of local replica 1 was replaced",
               two().run([&] {
                 if (replica_id() != 1) return;
                 net->layer = net->replace_module("layer", torch::nn::Linear(2, 1));
               }));
}

TEST(TorchCopies, PartsCannotBeReplacedInConfigure) {
  const auto scope = two().scope();
  const TorchModule<Net> net;
  EXPECT_ERROR(Code::FailedPrecondition, "make it in the module's constructor",
               net.configure([](Net& first) {
                 first.layer = first.replace_module("layer", torch::nn::Linear(2, 1));
               }));
}

}  // namespace
