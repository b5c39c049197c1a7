#include <gtest/gtest.h>

#include <barrier>
#include <latch>
#include <set>
#include <thread>

#include "cohort/cohort.h"
#include "cohort/graph.h"
#include "graph/graph_impl.h"
#include "graph/scopes.h"
#include "support/expect_error.h"
#include "support/replica_values.h"

namespace cohort {
namespace {

class Run : public ::testing::Test {
 protected:
  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
};

TEST_F(Run, GivesEachReplicaItsPartOfTheArguments) {
  const auto part = strategy_.distribute_values_from_function(
      [](ValueContext context) { return 10 * (context.replica_id_in_sync_group + 1); });
  const std::map<std::string, PerReplica<int>> named{{"rate", part}};
  const auto sums = strategy_.run(
      [](int own, const std::vector<int>& list, std::tuple<int, std::string> pair,
         const std::map<std::string, int>& by_name,
         int plain) { return own + list.at(1) + std::get<0>(pair) + by_name.at("rate") + plain; },
      part, std::vector<PerReplica<int>>{part, part}, std::tuple(part, std::string("same")), named,
      1000);
  EXPECT_EQ(printed(sums), "PerReplica:{\n  0: 1040,\n  1: 1080\n}");
}

TEST_F(Run, ReturnsAnyType) {
  struct Opaque {
    int id;
  };
  EXPECT_EQ(strategy_.run([] { return std::string("same"); }).value(), "same");
  EXPECT_EQ(strategy_.run([] { return Opaque{replica_id()}; })[1].id, 1);
  EXPECT_EQ(strategy_.run([] { return std::unique_ptr<int>(new int(7)); }).size(), 2u);
  EXPECT_EQ(strategy_.run([] {}).size(), 2u);
  const auto pairs = strategy_.run([] { return std::pair(replica_id(), 2.5); });
  EXPECT_EQ(printed(pairs), "PerReplica:{\n  0: (0, 2.5),\n  1: (1, 2.5)\n}");
}

struct LossAndCount {
  Tensor loss;
  int64_t count = 0;
};

}  // namespace

template <>
struct Fields<LossAndCount> {
  static auto of(auto& value) { return std::tie(value.loss, value.count); }
};

namespace {

TEST_F(Run, GivesAPartForEachPartThatReplicasReturn) {
  const auto own = [] { return Tensor({static_cast<float>(replica_id())}); };
  const auto [loss, seen] = strategy_.run([&] { return std::tuple(own(), 4); });
  EXPECT_EQ(strategy_.reduce(ReduceOp::Sum, loss).to<float>(), 1);
  EXPECT_EQ(seen.value(), 4);
  EXPECT_TRUE(seen.collapsed());
  EXPECT_FALSE(loss.collapsed());
  const auto [first, second] = strategy_.run([&] { return std::pair(own(), own() * 3.f); });
  EXPECT_EQ(second[1].to<float>(), 3);
  EXPECT_EQ(strategy_.run([](Tensor x) { return x.to<float>(); }, first)[1], 1);
  const auto [a, b, c] = strategy_.run([&] { return std::array{own(), own(), own() * 2.f}; });
  EXPECT_EQ(strategy_.gather(concat({a[1], b[1], c[1]}, 0), 0).to_vector<float>(),
            (std::vector<float>{1, 1, 2}));
  const auto [total, count] = strategy_.run([&] { return LossAndCount{own(), replica_id() + 5}; });
  EXPECT_EQ(strategy_.reduce(ReduceOp::Max, total).to<float>(), 1);
  EXPECT_EQ(count[1], 6);
}

TEST_F(Run, GivesAPartForEachPartThatATracedStepReturns) {
  const auto step = function([&](const Tensor& x) {
    return strategy_.run([&] { return std::pair(x + static_cast<float>(replica_id()), x); });
  });
  const auto [moved, same] = step(Tensor({2.f}));
  EXPECT_EQ(moved[1].to<float>(), 3);
  EXPECT_EQ(strategy_.reduce(ReduceOp::Sum, same).to<float>(), 4);
  OneDeviceStrategy one("CPU:0");
  const auto [number, text] = one.run([] { return std::pair(7, std::string("seven")); });
  EXPECT_EQ(number + 1, 8);
  EXPECT_EQ(text.value(), "seven");
}

TEST_F(Run, GivesEveryReplicaWhatTheOneReplicaOfAnotherStrategyGave) {
  OneDeviceStrategy one("CPU:0");
  const auto number = one.run([] { return 5; });
  EXPECT_EQ(strategy_.run([](int x) { return x; }, number).value(), 5);
  const Tensor shared({1.f});
  const auto tensor = strategy_.run([&] { return shared; });
  MirroredStrategy three({"CPU:0", "CPU:1", "CPU:2"});
  // Two components are two, also where they are one tensor.
  EXPECT_ERROR(Code::InvalidArgument, "component 2 does not exist",
               three.run([](const Tensor&) {}, tensor));
  EXPECT_TRUE(three.run([](const Tensor& x) { return x; }, Tensor(tensor)).collapsed());
  const auto merged = three.run([&] {
    return get_replica_context()->merge_call(
        [](Strategy&, const PerReplica<int>& all) { return all[0] + all[2]; }, number);
  });
  EXPECT_EQ(merged.value(), 10);
  const auto differ = strategy_.run([] { return replica_id(); });
  EXPECT_ERROR(Code::InvalidArgument, "component 2 does not exist", three.run([](int) {}, differ));
}

TEST_F(Run, PrintsStructuresInStructures) {
  using Named = std::map<std::string, std::vector<int>>;
  const auto all = strategy_.run([] {
    return std::tuple(std::vector<Named>{{{"a", {1, 2}}}}, std::pair(Named{}, std::array{0.5}));
  });
  EXPECT_EQ(printed(all), "([{'a': [1, 2]}], ({}, (0.5)))");
}

TEST_F(Run, SpreadsADatasetsElementOverTheParameters) {
  std::vector<std::optional<data::Element>> elements;
  for (const float value : {1.f, 2.f}) {
    elements.emplace_back(
        data::Element::tuple(std::vector<Tensor>{Tensor(value), Tensor(value * 10)}));
  }
  const PerReplica<data::Element> batch(std::move(elements));
  const auto typed = strategy_.run([](Tensor x, Tensor y) { return (x + y).to<float>(); }, batch);
  EXPECT_EQ(typed[1], 22.f);
  const auto generic =
      strategy_.run([](auto x, auto y) { return (x + y).template to<float>(); }, batch);
  EXPECT_EQ(generic[0], 11.f);
  const auto whole = strategy_.run([](const data::Element& all) { return all.size(); }, batch);
  EXPECT_EQ(whole.value(), 2u);
  const auto more = strategy_.run(
      [](Tensor x, Tensor y, float scale) { return (x + y).to<float>() * scale; }, batch, 2.f);
  EXPECT_EQ(more[1], 44.f);
  const auto traced = function([](Tensor x, Tensor y) { return x * y; });
  EXPECT_EQ(strategy_.run(traced, batch)[1].to<float>(), 40.f);
  const auto both = strategy_.run(
      [](const std::pair<Tensor, float>& all) { return all.first.to<float>() - all.second; },
      batch);
  EXPECT_EQ(both[1], -18.f);
}

TEST_F(Run, GivesAnElementByNameAsAMap) {
  const auto dataset = data::range(4).batch(2).map([](Tensor x) {
    return std::map<std::string, Tensor>{{"x", x}, {"double", x * int64_t{2}}};
  });
  const auto step = [](const std::map<std::string, Tensor>& batch) {
    return (batch.at("x") + batch.at("double")).to<int64_t>();
  };
  const auto found = strategy_.run(step, strategy_.distribute_dataset(dataset).iterator().next());
  EXPECT_EQ(strategy_.local_results(found), (std::vector<int64_t>{0, 3}));
}

TEST_F(Run, StructuresThatReplicasReturnMustAgree) {
  const auto list = [] { return std::vector<Tensor>(static_cast<size_t>(replica_id() + 1)); };
  EXPECT_ERROR(Code::InvalidArgument, "replica 1 has a list of 2 values", strategy_.run(list));
  EXPECT_ERROR(Code::InvalidArgument, "replica 1 has a list",
               strategy_.run([&] { return std::pair(1, list()); }));
  EXPECT_ERROR(Code::InvalidArgument, "replica 1 has a list",
               strategy_.run([&] { return std::vector{list()}; }));
  EXPECT_ERROR(Code::InvalidArgument, "replica 1 has a list", strategy_.run([&] {
    return std::map<int, std::vector<Tensor>>{{3, list()}};
  }));
  const auto named = [] { return std::map<std::string, int>{{std::to_string(replica_id()), 1}}; };
  EXPECT_ERROR(Code::InvalidArgument, "named '0'", strategy_.run(named));
  const auto numbered = [] { return std::map<int, int>{{replica_id(), 1}}; };
  EXPECT_ERROR(Code::InvalidArgument, "named '0'", strategy_.run(numbered));
  const auto more = [] {
    std::map<int, int> all{{7, 1}};
    if (replica_id() == 1) all[8] = 1;
    return all;
  };
  EXPECT_ERROR(Code::InvalidArgument, "named '8'", strategy_.run(more));
}

TEST_F(Run, MapsHaveKeysOfAnyType) {
  const auto ids = strategy_.run([] { return replica_id(); });
  const std::map<int, PerReplica<int>> numbered{{5, ids}};
  const auto step = [](const std::map<int, int>& all) { return std::map{std::pair(5, all.at(5))}; };
  EXPECT_EQ(printed(strategy_.run(step, numbered)), "PerReplica:{\n  0: {5: 0},\n  1: {5: 1}\n}");
  EXPECT_EQ(strategy_.local_results(numbered)[1].at(5), 1);
  EXPECT_EQ(strategy_.reduce(ReduceOp::Sum, numbered).at(5).to<int>(), 1);
}

TEST_F(Run, RunsReplicasAtTheSameTimeOnTheirDevices) {
  std::barrier<> both(2);
  const auto devices = strategy_.run([&] {
    both.arrive_and_wait();  // for ever, if one waited for the other to end
    return Tensor({1.f}).device() + " " + get_replica_context()->devices().at(0);
  });
  EXPECT_EQ(devices[0], device_name(0) + " " + device_name(0));
  EXPECT_EQ(devices[1], device_name(1) + " " + device_name(1));
}

TEST_F(Run, KeepsItsThreads) {
  const auto thread = [&] { return strategy_.run([] { return std::this_thread::get_id(); })[1]; };
  const std::thread::id first = thread();
  EXPECT_EQ(thread(), first);
  EXPECT_EQ(strategy_.run([] { return std::this_thread::get_id(); })[0],
            std::this_thread::get_id());
}

TEST_F(Run, ServesSeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> total{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        strategy_.run([&] {
          total += get_replica_context()->merge_call(
              [](Strategy&, PerReplica<int> ids) { return ids[0] + ids[1]; }, replica_id());
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 4 * 20 * 2);
}

TEST_F(Run, RunsMoreReplicasThanCores) {
  MirroredStrategy many({"CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4", "CPU:5", "CPU:6", "CPU:7"});
  for (int i = 0; i < 20; ++i) {
    const auto sums = many.run([&] {
      return get_replica_context()->merge_call(
          [](Strategy& s, PerReplica<int> ids) {
            int sum = 0;
            for (const int id : s.local_results(ids)) sum += id;
            return sum;
          },
          replica_id());
    });
    ASSERT_EQ(sums.value(), 28);
  }
}

TEST_F(Run, TapesAroundItHearNoReplica) {
  const Tensor x({3.f});
  GradientTape tape;
  tape.watch(x);
  const auto y = strategy_.run([&] { return x * 2.f; });
  EXPECT_FALSE(tape.gradient(y[0], x).defined());
}

TEST_F(Run, ThrowsTheFirstExceptionAndUnwindsTheOthers) {
  for (int failing = 0; failing < 2; ++failing) {
    std::atomic<int> unwound{0};
    struct Count {
      std::atomic<int>& count;
      ~Count() { ++count; }
    };
    const auto step = [&] {
      const Count count{unwound};
      if (replica_id() == failing) throw std::domain_error("first");
      get_replica_context()->merge_call([](Strategy&) {});
    };
    EXPECT_THROW(strategy_.run(step), std::domain_error);
    EXPECT_EQ(unwound, 2);
    EXPECT_FALSE(has_strategy());
    EXPECT_EQ(strategy_.run([] { return 1; }).value(), 1);
  }
}

TEST_F(Run, KeepsTheFirstOfTwoExceptions) {
  std::latch first_thrown(1);
  struct Announce {
    std::latch& latch;
    ~Announce() { latch.count_down(); }
  };
  const auto step = [&] {
    if (replica_id() == 1) throw std::domain_error("first");
    // This replica comes to the rendezvous only because the other one failed before.
    try {
      get_replica_context()->merge_call([](Strategy&) {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Cancelled);
    }
    throw std::logic_error("second");
  };
  EXPECT_THROW(strategy_.run(step), std::domain_error);
}

TEST_F(Run, ReplicasHaveTheCallersNumericsGuard) {
  const NumericsGuard guard;
  const auto codes =
      strategy_.run([] { return error_of([] { return log(Tensor({-1.f})); }).code; });
  EXPECT_EQ(codes[0], Code::InvalidArgument);
  EXPECT_EQ(codes[1], Code::InvalidArgument);
}

TEST_F(Run, ReplicasAreInsideTheCallersContainer) {
  const Container mine("mine");
  const auto names = strategy_.run([] { return internal::current_container(); });
  for (size_t r = 0; r < 2; ++r) EXPECT_EQ(names[r], "mine");
}

TEST_F(Run, ReplicasAreInsideTheCallersColocation) {
  Graph graph;
  const auto building = graph.as_default();
  const Colocation together(constant(Tensor(1.f), "anchor"));
  strategy_.run([] {
    const Tensor added = constant(Tensor(2.f), "added");
    const auto nodes = internal::graph_of(added);
    EXPECT_EQ(nodes->node(nodes->node_output(added).node).colocated_with,
              std::vector<std::string>{"anchor"});
  });
}

TEST_F(Run, DeviceFunctionsOfTheCallerSeeTheNodesOfAllReplicas) {
  Graph graph;
  const auto building = graph.as_default();
  std::set<std::string> asked;
  const DeviceScope placed([&](const DeviceRequest& request) {
    asked.insert(request.name);
    return request.device;
  });
  strategy_.run([] { constant(Tensor(2.f), "added"); });
  EXPECT_EQ(asked, (std::set<std::string>{"added", "replica_1/added"}));
}

TEST(RunOnOneDevice, CallsTheFunctionOnTheCallersThread) {
  OneDeviceStrategy strategy("CPU:1");
  const auto where = strategy.run([] {
    EXPECT_EQ(get_replica_context()->num_replicas_in_sync(), 1);
    return std::pair(std::this_thread::get_id(), Tensor({1.f}).device());
  });
  EXPECT_EQ(where.value().first, std::this_thread::get_id());
  EXPECT_EQ(where.value().second, device_name(1));
  EXPECT_THROW(strategy.run([] { throw std::domain_error("one"); }), std::domain_error);
}

TEST(RunByDefault, CallsTheFunctionAsItIs) {
  Strategy& strategy = get_strategy();
  EXPECT_EQ(strategy.run([](int x) { return x + get_replica_context()->num_replicas_in_sync(); }, 4)
                .value(),
            5);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  EXPECT_ERROR(Code::FailedPrecondition, "no devices", strategy.extended().worker_devices());
  EXPECT_ERROR(Code::FailedPrecondition, "no devices", strategy.extended().parameter_devices());
  EXPECT_ERROR(Code::Unimplemented, "broadcast_to",
               strategy.extended().broadcast_to(Tensor({1.f}), "CPU:0"));
  EXPECT_ERROR(Code::FailedPrecondition, "cannot be copied", strategy.deep_copy());
}

}  // namespace
}  // namespace cohort
