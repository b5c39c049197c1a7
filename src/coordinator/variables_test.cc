// Variables on parameter servers.

#include <gtest/gtest.h>

#include "support/coordinated_cluster.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

std::string ps(int task) {
  return "/job:ps/replica:0/task:" + std::to_string(task) + "/device:CPU:0";
}

class RemoteVariables : public testing::Test, public test::CoordinatedCluster {
 protected:
  RemoteVariables() : CoordinatedCluster(2, 2) {}
};

TEST_F(RemoteVariables, AreReadAndWrittenFromHere) {
  Variable v = strategy.create([] { return Variable({1.f, 2.f}, {.name = "v"}); });
  EXPECT_EQ(v.to_string(), "<Variable 'v:0' shape=(2,) dtype=float32, value=[1. 2.]>");
  EXPECT_TRUE(v.is_initialized());
  EXPECT_EQ(v.assign(Tensor({3.f, 4.f})).to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(v.assign_add(Tensor(1.f)).to_vector<float>(), (std::vector<float>{4, 5}));
  EXPECT_EQ(v.assign_sub(Tensor({1.f, 0.f})).to_vector<float>(), (std::vector<float>{3, 5}));
  v.scatter_add({Tensor({10.f}), Tensor({int64_t{1}}), {2}});
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{3, 15}));
  EXPECT_ERROR(Code::InvalidArgument, "'v'", v.assign(Tensor({1.f, 2.f, 3.f})));
  Variable copy = v.deep_copy();
  copy.assign_add(Tensor(1.f));
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{3, 15}));
}

TEST_F(RemoteVariables, ArePlacedInTurn) {
  const auto scope = strategy.scope();
  const Variable a(1.f), b(1.f), c(1.f);
  EXPECT_EQ(a.device(), ps(0));
  EXPECT_EQ(b.device(), ps(1));
  EXPECT_EQ(c.device(), ps(0));
  {
    const auto elsewhere = device("/job:ps/task:0");  // a user's scope does not count
    EXPECT_EQ(Variable(1.f).device(), ps(1));
  }
  {
    const auto beside = strategy.extended().colocate_vars_with(b);
    EXPECT_EQ(Variable(1.f).device(), ps(1));
  }
  EXPECT_EQ(Variable(1.f).device(), ps(0));  // a colocated one does not advance the round
}

TEST_F(RemoteVariables, AreUsedByTheirNamesAlone) {
  const auto scope = strategy.scope();
  Variable a(1.f, {.name = "same"}), b(2.f, {.name = "same"});
  a.assign_add(10.f);
  EXPECT_EQ(a.read_value().to<float>(), 11);
  EXPECT_EQ(b.read_value().to<float>(), 2);
  EXPECT_EQ(b.name(), "same");
}

TEST(RemoteVariablePlacement, GoesByBytesWhenAsked) {
  test::CoordinatedCluster here(2, 1, {.placement = VariablePlacement::ByBytes});
  const auto scope = here.strategy.scope();
  const Variable large(zeros({100}));
  EXPECT_EQ(large.device(), ps(0));
  const Variable first(zeros({10})), second(zeros({10}));
  EXPECT_EQ(first.device(), ps(1));
  EXPECT_EQ(second.device(), ps(1));
  const ParameterServerPlan plan = here.strategy.plan();
  EXPECT_EQ(plan.bytes_per_ps, (std::vector<int64_t>{400, 80}));
  EXPECT_EQ(plan.total_bytes(), 480);
  EXPECT_EQ(plan.bytes_per_step, 960);
  EXPECT_NE(plan.to_string().find("ps 1: 80 bytes"), std::string::npos) << plan;
}

TEST_F(RemoteVariables, AreTrainedByTheWorkers) {
  random::set_seed(1);  // some beginnings take longer
  ClusterCoordinator coordinator(strategy);
  const auto scope = strategy.scope();
  nn::Sequential model{nn::Dense(2, 8), nn::relu, nn::Dense(8, 1)};
  optim::Adam optimizer({.learning_rate = 0.01});
  const auto step = function([&](Tensor x, Tensor y) {
    return strategy.run(
        [&](Tensor input, Tensor wanted) {
          GradientTape tape;
          const Tensor loss = mean(square(model(input) - wanted));
          optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
          return loss;
        },
        x, y);
  });
  const Tensor x = random::uniform({64, 2});
  const Tensor y = sum(x, 1, KeepDims::Yes);
  const float first = coordinator.fetch(coordinator.schedule(step, x, y)).value().to<float>();
  for (int i = 0; i < 1000; ++i) coordinator.schedule(step, x, y);
  coordinator.join();
  const float last = coordinator.fetch(coordinator.schedule(step, x, y)).value().to<float>();
  EXPECT_LT(last, first / 4) << first;  // steps of late gradients may lead away again
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 1002);
  const Variable weights = model.variables()[0];
  EXPECT_EQ(optimizer.slot(weights, "mean").device(), weights.device());
}

TEST(WorkersWithTwoReplicas, AreInSync) {
  test::CoordinatedCluster here(1, 2, {.devices = {"CPU:0", "CPU:1"}});
  EXPECT_EQ(here.strategy.num_replicas_in_sync(), 2);
  ClusterCoordinator coordinator(here.strategy);
  Variable v =
      here.strategy.create([] { return Variable(1.f, {.aggregation = VariableAggregation::Sum}); });
  const auto step = function([&] {
    const auto ids = here.strategy.run([&] {
      const auto id = static_cast<float>(get_replica_context()->replica_id_in_sync_group());
      v.assign_add(Tensor(id) + 1.f);
      return Tensor(id);
    });
    return here.strategy.reduce(ReduceOp::Sum, ids);
  });
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(step)).to<float>(), 1);
  EXPECT_EQ(v.read_value().to<float>(), 4);
}

TEST_F(RemoteVariables, AreCachedWhereAsked) {
  ClusterCoordinator coordinator(strategy);
  Variable v = strategy.create([] { return Variable(1.f); });
  const RemoteValue result = coordinator.schedule([&] {
    std::vector<Tensor> seen;
    {
      const auto caching = cache_variable_reads();
      seen.push_back(v.read_value());
      v.assign(9.f);
      seen.push_back(v.read_value());
    }
    seen.push_back(v.read_value());
    return seen;
  });
  std::vector<float> seen;
  for (const Tensor& value : coordinator.fetch(result)) seen.push_back(value.to<float>());
  EXPECT_EQ(seen, (std::vector<float>{1, 1, 9}));
}

TEST_F(RemoteVariables, HaveTheirRowsLookedUpAnewWhereReadsAreCached) {
  ClusterCoordinator coordinator(strategy);
  Variable table = strategy.create([] { return Variable({{1.f}, {2.f}}); });
  const RemoteValue result = coordinator.schedule([&] {
    const auto caching = cache_variable_reads();
    std::vector<Tensor> seen{nn::embedding_lookup(table, Tensor({1}))};
    table.assign_add(Tensor(10.f));
    seen.push_back(nn::embedding_lookup(table, Tensor({1})));
    return seen;
  });
  const std::vector<Tensor> seen = coordinator.fetch(result);
  EXPECT_EQ(seen[0].to_vector<float>()[0], 2);
  EXPECT_EQ(seen[1].to_vector<float>()[0], 12);
}

TEST(PartitionedVariables, AreSpreadAndLookedUpWhereTheyAre) {
  test::CoordinatedCluster here(2, 2, {.variable_partitioner = FixedShardsPartitioner(3)});
  ClusterCoordinator coordinator(here.strategy);
  const auto scope = here.strategy.scope();
  const Variable table(reshape(range(14, kFloat32), {7, 2}), {.name = "table"});
  const ShardedVariable sharded(table);
  std::vector<std::string> names, devices;
  for (const Variable& shard : sharded) {
    names.push_back(shard.name());
    devices.push_back(shard.device());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"table/part_0", "table/part_1", "table/part_2"}));
  EXPECT_EQ(devices, (std::vector<std::string>{ps(0), ps(1), ps(0)}));
  EXPECT_FALSE(ShardedVariable::is_sharded(Variable(1.f)));
  const auto look_up = function([&](Tensor ids) { return nn::embedding_lookup(table, ids); });
  const auto rows = [&](const Tensor& ids) {
    return coordinator.fetch(coordinator.schedule(look_up, ids)).to_vector<float>();
  };
  EXPECT_EQ(rows(Tensor({6, 0, 3, 6})), (std::vector<float>{12, 13, 0, 1, 6, 7, 12, 13}));
  EXPECT_EQ(rows(Tensor({{2}, {5}})), (std::vector<float>{4, 5, 10, 11}));
  EXPECT_ERROR(Code::InvalidArgument, "ReadRows",
               coordinator.fetch(coordinator.schedule(look_up, Tensor({7}))));
  EXPECT_ERROR(Code::InvalidArgument, "", coordinator.join());
}

TEST(PartitionedVariables, AreTrainedSparsely) {
  test::CoordinatedCluster here(2, 1, {.variable_partitioner = FixedShardsPartitioner(2)});
  ClusterCoordinator coordinator(here.strategy);
  const Variable table = here.strategy.create([] { return Variable(ones({5, 2})); });
  Variable same(ones({5, 2}));
  optim::Adagrad far({.learning_rate = 0.1}), near({.learning_rate = 0.1});
  const auto update = [](const Variable& rows, optim::Optimizer& optimizer, const Tensor& ids) {
    GradientTape tape;
    const Tensor loss = sum(square(nn::embedding_lookup(rows, ids)));
    optimizer.apply_gradients(tape.gradient(loss, std::vector{rows}), {rows});
    return loss;
  };
  const auto step = function([&](Tensor ids) {
    return here.strategy.run([&](Tensor own) { return update(table, far, own); }, ids);
  });
  for (const std::vector<int>& ids : {std::vector{4, 0, 4}, std::vector{1}, std::vector{4, 2}}) {
    const float loss =
        coordinator.fetch(coordinator.schedule(step, Tensor::from(ids))).value().to<float>();
    EXPECT_FLOAT_EQ(loss, update(same, near, Tensor::from(ids)).to<float>());
  }
  EXPECT_EQ(table.read_value().to_vector<float>(), same.read_value().to_vector<float>());
  const Variable shard = ShardedVariable(table).variables()[1];
  EXPECT_EQ(far.slot(shard, "accumulator").device(), shard.device());
}

TEST(PartitionedVariables, NeedAPartitionerThatCutsRows) {
  test::CoordinatedCluster here(1, 1, {.variable_partitioner = [](const Shape&, DType, int) {
                                  return std::vector<int64_t>{1, 2};
                                }});
  EXPECT_ERROR(Code::InvalidArgument, "(1, 2) parts", here.strategy.create([] {
    return Variable(ones({4, 4}));
  }));
}

// A table with a sparse optimizer, cut into `parts` parts.
struct Table : test::CoordinatedCluster {
  explicit Table(int parts)
      : CoordinatedCluster(2, 1, {.variable_partitioner = FixedShardsPartitioner(parts)}) {}

  ClusterCoordinator coordinator{strategy};
  Variable rows = strategy.create([] { return Variable(ones({5, 2}), {.name = "table"}); });
  optim::Adagrad optimizer{{.learning_rate = 0.1}};
  Checkpoint checkpoint{{{"rows", rows}, {"optimizer", optimizer}}};

  void train(const std::vector<int>& ids, int times = 1) {
    const auto step = function([&](Tensor wanted) {
      GradientTape tape;
      const Tensor loss = sum(square(nn::embedding_lookup(rows, wanted)));
      optimizer.apply_gradients(tape.gradient(loss, std::vector{rows}), {rows});
    });
    for (int i = 0; i < times; ++i)
      coordinator.fetch(coordinator.schedule(step, Tensor::from(ids)));
  }
  std::vector<float> values() const { return rows.read_value().to_vector<float>(); }
};

// Functions make variables while they are traced, and must not make them again when they run.
TEST(PartitionedVariables, HaveSlotsThatRememberEarlierSteps) {
  Table table(2);
  table.train({0}, 2);
  const Variable first = ShardedVariable(table.rows).variables()[0];
  const Tensor slot = table.optimizer.slot(first, "accumulator").read_value();
  EXPECT_NEAR(slot.at<float>({0, 0}), 2 * 2 + 1.8 * 1.8, 1e-5);
}

TEST(PartitionedVariables, AreRestoredIntoAnotherNumberOfPartsWithTheirSlots) {
  const TemporaryDirectory directory;
  Table three(3);
  three.train({0, 4});
  three.train({4, 2});
  const std::string saved = three.checkpoint.save(directory.path() + "/three");
  three.train({4, 1});
  for (const int parts : {1, 2, 5}) {
    Table fresh(parts);
    fresh.checkpoint.restore(saved);  // before there are slots
    fresh.train({4, 1});
    EXPECT_EQ(fresh.values(), three.values()) << parts;
    fresh.train({3, 3});
    fresh.checkpoint.restore(saved).assert_consumed();  // the slots exist now
    fresh.train({4, 1});
    EXPECT_EQ(fresh.values(), three.values()) << parts;
  }
}

TEST(PartitionedVariables, MayBeMadePartByPart) {
  test::CoordinatedCluster here(2, 1, {.variable_partitioner = FixedShardsPartitioner(3)});
  std::vector<std::string> calls;
  const auto make = [&](const Shape& part, const std::vector<int64_t>& offset) {
    calls.push_back(part.to_string() + " at " + std::to_string(offset[0]));
    return reshape(range(part.num_elements(), kFloat32) + static_cast<float>(2 * offset[0]), part);
  };
  const Variable table = here.strategy.create([&] {
    return Variable(PartInitializer({7, 2}, make), {.name = "table"});
  });
  EXPECT_EQ(calls, (std::vector<std::string>{"(3, 2) at 0", "(2, 2) at 3", "(2, 2) at 5"}));
  EXPECT_EQ(table.read_value().to_vector<float>(), range(14, kFloat32).to_vector<float>());
  EXPECT_EQ(ShardedVariable(table).variables()[1].name(), "table/part_1");
  const Variable small = here.strategy.create([&] {
    const auto beside = here.strategy.extended().colocate_vars_with(table);
    return Variable(PartInitializer({2, 2}, make));
  });
  EXPECT_EQ(calls.back(), "(2, 2) at 0");  // not cut: once, the whole
  EXPECT_ERROR(
      Code::InvalidArgument, "must be float32 (3, 2), but the initializer made",
      here.strategy.create([&] {
        return Variable(PartInitializer(
            {7, 2}, [](const Shape&, const std::vector<int64_t>&) { return Tensor({1.f}); }));
      }));
}

TEST(PartitionedVariables, ThatAreNotPartInitialisedAreMadeWholeOnce) {
  test::CoordinatedCluster here(2, 1, {.variable_partitioner = FixedShardsPartitioner(3)});
  int calls = 0;
  const Variable table = here.strategy.create([&] {
    return Variable([&] {
      ++calls;
      return reshape(range(14, kFloat32), {7, 2});
    });
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(table.read_value().to_vector<float>(), range(14, kFloat32).to_vector<float>());
}

TEST(RemoteVariablePlacement, NamesTheServerThatHasNoRoom) {
  test::CoordinatedCluster here(2, 1, {.ps_memory_bytes = 1000});
  const auto scope = here.strategy.scope();
  const Variable first(zeros({200}), {.name = "first"});
  const Variable second(zeros({100}), {.name = "second"});
  const Status status = capture_status([] { Variable(zeros({100}), {.name = "third"}); });
  EXPECT_EQ(status.code, Code::ResourceExhausted);
  for (const char* part :
       {"/job:ps/replica:0/task:0 has room for 1000 bytes",
        "'third', which has 400, it would hold 1200", "ps 0: 800 bytes", "ps 1: 400 bytes"}) {
    EXPECT_NE(status.message.find(part), std::string::npos) << part << "\n" << status.message;
  }
  EXPECT_EQ(here.strategy.plan().total_bytes(), 1200);
}

TEST_F(RemoteVariables, AreSavedAndRestored) {
  const std::string prefix = testing::TempDir() + "/remote_variables";
  Variable v = strategy.create([] { return Variable({1.f, 2.f}, {.name = "v"}); });
  Checkpoint checkpoint({{"v", v}});
  const std::string saved = checkpoint.save(prefix);
  v.assign(Tensor({0.f, 0.f}));
  checkpoint.restore(saved);
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{1, 2}));
  Variable here({0.f, 0.f}, {.name = "v"});
  Checkpoint({{"v", here}}).restore(saved);
  EXPECT_EQ(here.read_value().to_vector<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace cohort
