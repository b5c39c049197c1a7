// Random numbers of torch inside replicas.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "support/local_workers.h"
#include "support/torch_floats.h"

using namespace cohort;

namespace {

using test::Floats;
using test::floats;

struct Layer : torch::nn::Module {
  Layer() : linear(register_module("linear", torch::nn::Linear(8, 8))) {}
  torch::nn::Linear linear;
};

MirroredStrategy mirrored(int replicas) {
  std::vector<std::string> devices;
  for (int i = 0; i < replicas; ++i) devices.push_back("CPU:" + std::to_string(i));
  return MirroredStrategy(devices);
}

torch::Tensor ones() { return torch::ones({64}); }

// Ways to draw, with a generator in their schema and without.
const std::map<std::string, std::function<torch::Tensor()>> kDraws{
    {"rand", [] { return torch::rand({64}); }},
    {"randn", [] { return torch::randn({64}); }},
    {"rand_like", [] { return torch::rand_like(ones()); }},
    {"randn_like", [] { return torch::randn_like(ones()); }},
    {"randint", [] { return torch::randint(1000, {64}); }},
    {"randint_like", [] { return torch::randint_like(ones(), 1000); }},
    {"randperm", [] { return torch::randperm(64); }},
    {"normal", [] { return at::normal(ones(), ones()); }},
    {"normal_", [] { return torch::empty({64}).normal_(); }},
    {"uniform_", [] { return torch::empty({64}).uniform_(); }},
    {"bernoulli", [] { return torch::bernoulli(ones() * 0.5); }},
    {"bernoulli_", [] { return torch::empty({64}).bernoulli_(0.5); }},
    {"exponential_", [] { return torch::empty({64}).exponential_(); }},
    {"geometric_", [] { return torch::empty({64}).geometric_(0.1); }},
    {"cauchy_", [] { return torch::empty({64}).cauchy_(); }},
    {"log_normal_", [] { return torch::empty({64}).log_normal_(); }},
    {"random_", [] { return torch::empty({64}).random_(0, 1000); }},
    {"multinomial", [] { return torch::multinomial(ones(), 64, true); }},
    {"poisson", [] { return torch::poisson(ones() * 50); }},
    {"binomial", [] { return torch::binomial(ones() * 50, ones() * 0.5); }},
    {"dropout", [] { return torch::dropout(ones(), 0.5, true); }},
    {"native_dropout", [] { return std::get<0>(torch::native_dropout(ones(), 0.5, true)); }},
    {"alpha_dropout", [] { return torch::alpha_dropout(ones(), 0.5, true); }},
    {"feature_dropout",
     [] {
       return torch::feature_dropout(torch::ones({2, 64}), 0.5, true);
     }},
    {"rrelu", [] { return torch::rrelu(-ones(), 0.1, 0.9, true); }},
    {"init",
     [] {
       return torch::nn::init::xavier_normal_(torch::empty({8, 8}));
     }},
    {"module", [] { return torch::nn::Linear(8, 8)->weight; }},
};

// By replica, of two runs.
std::vector<Floats> draw_in_replicas(Strategy& strategy,
                                     const std::function<torch::Tensor()>& draw) {
  torch::manual_seed(1);
  std::vector<Floats> all;
  for (int run = 0; run < 2; ++run) {
    const auto found = strategy.run([&] { return Tensor(draw().detach()); });
    for (size_t i = 0; i < found.size(); ++i) all.push_back(floats(torch::Tensor(found[i])));
  }
  return all;
}

TEST(TorchRandom, DiffersInEachReplicaReproducibly) {
  MirroredStrategy strategy = mirrored(3);
  for (const auto& [name, draw] : kDraws) {
    const std::vector<Floats> first = draw_in_replicas(strategy, draw);
    for (size_t i = 0; i < first.size(); ++i) {
      for (size_t j = 0; j < i; ++j) EXPECT_NE(first[i], first[j]) << name;
    }
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(draw_in_replicas(strategy, draw), first) << name;
    }
  }
}

// What replicas draw leaves torch's own generator alone, which is one for the process.
TEST(TorchRandom, OfReplicasLeavesTorchsGeneratorAlone) {
  MirroredStrategy strategy = mirrored(2);
  const auto after_run = [&](int draws) {
    torch::manual_seed(1);
    strategy.run([&] { return torch::rand({draws}).sum().item<float>(); });
    return floats(torch::rand({4}));
  };
  EXPECT_EQ(after_run(1), after_run(1000));
}

TEST(TorchRandom, FollowsTheSeed) {
  MirroredStrategy strategy = mirrored(2);
  const auto draw = [&](uint64_t seed) {
    torch::manual_seed(seed);
    return floats(torch::Tensor(strategy.run([] { return Tensor(torch::rand({8})); })[1]));
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(TorchRandom, OfOneReplicaIsTorchs) {
  OneDeviceStrategy strategy("CPU:0");
  torch::manual_seed(1);
  const Floats plain = floats(torch::rand({8}));
  torch::manual_seed(1);
  Floats found;
  strategy.run([&] { found = floats(torch::rand({8})); });
  EXPECT_EQ(found, plain);
}

// Replicas that give their generators the same seed draw the same, as processes would.
TEST(TorchRandom, FollowsASeedThatReplicasGive) {
  MirroredStrategy strategy = mirrored(2);
  torch::manual_seed(1);
  const Floats after = floats(torch::rand({4}));
  torch::manual_seed(5);
  const Floats plain = floats(torch::randn({8}));
  torch::manual_seed(1);
  for (int run = 0; run < 2; ++run) {
    const auto found = strategy.run([] {
      torch::rand({3});
      torch::manual_seed(5);
      return Tensor(torch::randn({8}));
    });
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(floats(torch::Tensor(found[i])), plain);
  }
  const auto each = strategy.run([] {
    torch::manual_seed(5 +
                       static_cast<uint64_t>(get_replica_context()->replica_id_in_sync_group()));
    return Tensor(torch::randn({8}));
  });
  EXPECT_EQ(floats(torch::Tensor(each[0])), plain);
  EXPECT_NE(floats(torch::Tensor(each[1])), plain);
  torch::manual_seed(1);
  EXPECT_EQ(floats(torch::rand({4})), after);  // outside, it is torch's own again
}

TEST(TorchRandom, OfReplicasThatGiveASeedLeavesTorchsGeneratorAlone) {
  MirroredStrategy strategy = mirrored(2);
  const auto after_run = [&](bool seeds) {
    torch::manual_seed(1);
    strategy.run([&] {
      if (seeds) torch::manual_seed(5);
    });
    return floats(torch::rand({4}));
  };
  EXPECT_EQ(after_run(true), after_run(false));
}

// The state is the replica's, too: what is saved can be restored.
TEST(TorchRandom, RestoresTheStateOfAReplica) {
  MirroredStrategy strategy = mirrored(2);
  const auto equal = strategy.run([] {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const torch::Tensor state = generator.get_state();
    const Floats first = floats(torch::rand({8}));
    generator.set_state(state);
    return floats(torch::empty({8}).uniform_(0, 1, generator)) == first;
  });
  EXPECT_TRUE(equal[0] && equal[1]);
}

TEST(TorchRandom, DrawsFromAGeneratorThatIsGiven) {
  MirroredStrategy strategy = mirrored(2);
  const auto found = strategy.run([] {
    const auto own = at::make_generator<at::CPUGeneratorImpl>(7);
    return Tensor(torch::empty({8}).uniform_(0, 1, own));
  });
  EXPECT_EQ(floats(torch::Tensor(found[0])), floats(torch::Tensor(found[1])));
}

// Each worker is a process with another generator, and all generators begin alike.
TEST(TorchRandom, DiffersOnEachWorker) {
  std::vector<Floats> found(2);
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto id = static_cast<size_t>(strategy.worker_id());
    const internal::TorchRandomScope process(1);
    strategy.run([&] { found[id] = floats(torch::rand({8})); });
  });
  EXPECT_NE(found[0], found[1]);
}

TEST(TorchRandom, MakesEqualModulesForAnyNumberOfReplicas) {
  std::vector<Floats> seconds;
  for (const int replicas : {1, 2, 3}) {
    MirroredStrategy strategy = mirrored(replicas);
    const auto scope = strategy.scope();
    torch::manual_seed(1);
    const TorchModule<Layer> first;
    const TorchModule<Layer> second;
    seconds.push_back(floats(second->linear->weight));
    EXPECT_NE(floats(first->linear->weight), seconds.back());
  }
  EXPECT_EQ(seconds[1], seconds[0]);
  EXPECT_EQ(seconds[2], seconds[0]);
}

// Fourier features, say, which are neither parameters nor buffers.
struct Unregistered : torch::nn::Module {
  torch::Tensor features = torch::randn({2, 8});
};

TEST(TorchRandom, MakesEqualMembersOfAllCopies) {
  MirroredStrategy strategy = mirrored(3);
  const auto scope = strategy.scope();
  torch::manual_seed(1);
  const TorchModule<Unregistered> net;
  const Floats after = floats(torch::rand({4}));
  torch::manual_seed(1);
  const Unregistered plain;
  EXPECT_EQ(floats(torch::rand({4})), after);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(floats(net.copy(i).features), floats(plain.features));
}

struct Seeding : torch::nn::Module {
  Seeding() { torch::manual_seed(7), features = torch::randn({2, 8}); }
  torch::Tensor features;
};

TEST(TorchRandom, MakesEqualMembersOfModulesThatGiveASeed) {
  MirroredStrategy strategy = mirrored(2);
  const auto scope = strategy.scope();
  const TorchModule<Seeding> net;
  EXPECT_EQ(floats(net.copy(0).features), floats(net.copy(1).features));
}

TEST(TorchRandom, MakesEqualMembersOnAllWorkers) {
  std::vector<std::vector<Floats>> found(2);
  test::on_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto id = static_cast<size_t>(strategy.worker_id());
        const internal::TorchRandomScope process(id);
        const auto scope = strategy.scope();
        const TorchModule<Unregistered> net;
        found[id] = {floats(net.copy(0).features), floats(net.copy(1).features)};
      },
      test::kTwoReplicas);
  EXPECT_EQ(found[0][0], found[0][1]);
  EXPECT_EQ(found[1], found[0]);
}

}  // namespace
