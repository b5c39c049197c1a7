// Calls of strategies, functions, datasets, checkpoints and trainers, made again and again, leave
// nothing behind.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "steady/holdings.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::process_holdings;

struct Replicas {
  MirroredStrategy strategy{std::vector<std::string>{"CPU:0", "CPU:1"}};
  StrategyScope scope = strategy.scope();
  Variable mean{1.f, {.name = "mean", .aggregation = VariableAggregation::Mean}};
  Variable w{1.f, {.name = "w"}};
  optim::Adam adam{{.learning_rate = 0.1}};
  PerReplica<Tensor> values = strategy.distribute_values_from_function(
      [](ValueContext context) { return Tensor(context.replica_id_in_sync_group + 1.f); });

  void train() {
    GradientTape tape;
    const Tensor loss = square(w - 3.f);
    adam.apply_gradients(tape.gradient(loss, {w}), {w});
  }
};

TEST(SteadyCalls, OfAMirroredStrategyAddNothing) {
  Replicas here;
  const auto step = function([&] { here.train(); });
  drive("run(lambda)", calls(2000), process_holdings,
        [&](int) { here.strategy.run([&] { here.train(); }); });
  drive("run(function)", calls(2000), process_holdings, [&](int) { here.strategy.run(step); });
  drive("reduce", calls(2000), process_holdings,
        [&](int) { (void)here.strategy.reduce(ReduceOp::Sum, here.values); });
  drive("all_reduce", calls(2000), process_holdings, [&](int) {
    here.strategy.run(
        [](const Tensor& own) { get_replica_context()->all_reduce(ReduceOp::Sum, own); },
        here.values);
  });
  drive("assign", calls(2000), process_holdings, [&](int i) { here.mean.assign(float(i)); });
  drive("aggregated assign", calls(2000), process_holdings, [&](int) {
    here.strategy.run([&](const Tensor& own) { here.mean.assign(own); }, here.values);
  });
  drive("read", calls(2000), process_holdings, [&](int) { (void)here.mean.read_value(); });
  drive("variables that are dropped", calls(500), process_holdings,
        [&](int) { const Variable dropped(zeros({1000})); });
  drive("functions that are dropped", calls(200), process_holdings, [&](int i) {
    const auto dropped = function([&] { here.w.assign_add(float(i)); });
    here.strategy.run(dropped);
  });
  drive("learning rates", calls(200), process_holdings, [&](int i) {
    here.adam.set_learning_rate(0.1 / (1 + i));
    here.strategy.run(step);
  });
}

TEST(SteadyCalls, OfWhatAMirroredStrategyIsMadeOfAddNothing) {
  Replicas here;
  StrategyExtended& extended = here.strategy.extended();
  const Destinations both = Destinations::of_devices({"CPU:0", "CPU:1"});
  const std::vector<ReduceRequest> requests{{here.values, both}, {here.values, "CPU:0"}};
  const PerReplica<Tensor> rows = here.strategy.run([] { return ones({1, 2}); });
  const auto in_replicas = [&](const auto& call) { here.strategy.run(call, here.values); };
  const std::pair<std::string, std::function<void()>> all[] = {
      {"merge_call",
       [&] {
         in_replicas([](const Tensor& own) {
           const auto same = [](Strategy&, const PerReplica<Tensor>& values) { return values; };
           (void)get_replica_context()->merge_call(same, own);
         });
       }},
      {"all_gather",
       [&] {
         in_replicas([](const Tensor& own) {
           (void)get_replica_context()->all_gather(reshape(own, {1}), 0);
         });
       }},
      {"update",
       [&] { extended.update(here.w, [](Variable copy) { return copy.assign_add(1.f); }); }},
      {"update_non_slot", [&] { extended.update_non_slot(both, [] { return Tensor(1.f); }); }},
      {"update_copies",
       [&] {
         extended.update_copies(here.w, [](Variable copy, size_t) { return copy.assign_add(1.f); });
       }},
      {"gather_to", [&] { extended.gather_to(rows, both, 0); }},
      {"colocate_vars_with",
       [&] {
         const auto beside = extended.colocate_vars_with(here.w);
         EXPECT_TRUE(extended.variable_created_in_scope(Variable(1.f)));
       }},
      {"value_container", [&] { EXPECT_EQ(extended.value_container(here.w).name(), "w"); }},
      {"non_slot_devices", [&] { (void)extended.non_slot_devices({here.w}); }},
      {"logical devices",
       [&] {
         (void)here.strategy.assign_to_logical_device(Tensor(1.f), 0);
         (void)here.strategy.split_to_logical_devices(Tensor({1.f}), {1});
         (void)here.strategy.replicate_to_logical_devices(Tensor(1.f));
       }},
      {"reduce_to", [&] { extended.reduce_to(ReduceOp::Sum, here.values, both); }},
      {"batch_reduce_to", [&] { extended.batch_reduce_to(ReduceOp::Sum, requests); }},
      {"broadcast_to", [&] { extended.broadcast_to(Tensor(1.f), both); }},
      {"read_var", [&] { (void)extended.read_var(here.mean); }},
      {"local_results", [&] { (void)here.strategy.local_results(here.values); }},
      {"distribute_values_from_function",
       [&] {
         (void)here.strategy.distribute_values_from_function(
             [](const ValueContext&) { return Tensor(1.f); });
       }},
      {"create", [&] { (void)here.strategy.create([] { return Variable(1.f); }); }},
      {"deep_copy", [&] { (void)here.strategy.deep_copy(); }},
  };
  for (const auto& [what, call] : all) {
    drive(what, calls(500), process_holdings, [&call](int) { call(); });
  }
}

// After as many as a function keeps.
TEST(SteadyCalls, WithNewNumbersAndShapesAddNothing) {
  const auto scale = function([](int by, Tensor x) { return x * float(by); });
  const auto count = std::max(calls(1500), 1500);
  drive("numbers", count, process_holdings, [&](int i) { scale(i, Tensor(1.f)); });
  const auto twice = function([](Tensor x) { return x * 2.f; });
  drive("shapes", count, process_holdings, [&](int i) { twice(zeros({1, 1 + i})); });
}

TEST(SteadyCalls, OfStrategiesThatAreDroppedAddNothing) {
  drive("strategies", calls(100), process_holdings, [](int) {
    Replicas here;
    here.strategy.run([&] { here.train(); });
  });
}

TEST(SteadyCalls, OfDistributedInputAddNothing) {
  Replicas here;
  const auto dataset = data::range(8).batch(4).prefetch(1);
  drive("walks", calls(200), process_holdings, [&](int) {
    for (const auto& batch : here.strategy.distribute_dataset(dataset)) {
      here.strategy.run([](const Tensor& own) { (void)sum(own); }, batch);
    }
  });
}

TEST(SteadyCalls, OfCheckpointsAddNothing) {
  Replicas here;
  const TemporaryDirectory directory;
  Checkpoint checkpoint({{"w", here.w}, {"adam", here.adam}});
  drive("save and restore", calls(50), process_holdings, [&](int) {
    const std::string saved = checkpoint.save(directory.path() + "/one");
    checkpoint.restore(saved).assert_consumed();
  });
}

TEST(SteadyCalls, OfATrainerAddNothing) {
  Replicas here;
  nn::Sequential model{nn::Dense(2, 4), nn::relu, nn::Dense(4, 2)};
  optim::Sgd sgd({.learning_rate = 0.1});
  Trainer trainer(model, nn::softmax_cross_entropy, sgd);
  const auto examples = data::range(8)
                            .map([](const Tensor& i) {
                              return std::make_pair(stack({cast(i, kFloat32), Tensor(1.f)}),
                                                    mod(cast(i, kInt64), Tensor(int64_t{2})));
                            })
                            .batch(4);
  drive("fit", calls(100), process_holdings,
        [&](int) { trainer.fit(examples, {.progress = false}); });
  drive("evaluate", calls(100), process_holdings, [&](int) { trainer.evaluate(examples); });
}

TEST(SteadyCalls, OfPredictionsAndBackupsAddNothing) {
  Replicas here;
  nn::Sequential model{nn::Dense(1, 4), nn::relu, nn::Dense(4, 1)};
  optim::Sgd sgd({.learning_rate = 0.1});
  Trainer trainer(model, nn::mean_squared_error, sgd);
  const auto inputs =
      data::range(8).map([](const Tensor& i) { return reshape(cast(i, kFloat32), {1}); });
  const auto examples = data::zip({inputs, inputs}).batch(4);
  drive("predict", calls(100), process_holdings,
        [&](int) { (void)trainer.predict(inputs.batch(4)); });
  drive(
      "fit with a backup and callbacks", calls(10), process_holdings,
      [&](int i) {
        const TemporaryDirectory directory;
        const auto rate = [i](int, double) { return 0.1 / (1 + i); };
        trainer.fit(examples, {.epochs = 2,
                               .callbacks = {std::make_shared<LearningRateScheduler>(rate),
                                             std::make_shared<EarlyStopping>(
                                                 EarlyStoppingOptions{.monitor = "loss"})},
                               .backup = directory.path(),
                               .backup_steps = 1,
                               .progress = false});
      },
      test::kMoreBytesOfGraphs);
}

TEST(SteadyCalls, OfBackupAndRestoreAddNothing) {
  Replicas here;
  const auto dataset = data::range(8).batch(4);
  drive("backups", calls(20), process_holdings, [&](int) {
    const TemporaryDirectory directory;
    BackupAndRestore backup(here.strategy, {{"w", here.w}, {"adam", here.adam}},
                            {.directory = directory.path(), .every_steps = 1});
    backup.run(here.strategy.distribute_dataset(dataset),
               [&](const DistributedElement&) { here.strategy.run([&] { here.train(); }); });
    EXPECT_EQ(backup.report().steps, 2);
  });
}

TEST(SteadyCalls, OfInputThatIsDroppedHalfWayAddNothing) {
  Replicas here;
  const auto slow = data::range(1000).map([](int64_t x) { return x + 1; }, {.parallel = 2});
  drive(
      "pipelines", calls(200), process_holdings,
      [&](int) {
        data::Iterator it = slow.shuffle(100).batch(4).prefetch(2).iterator();
        (void)it.next();
      },
      test::kMoreBytesOfThreads);
  drive(
      "distribute_datasets_from_function", calls(100), process_holdings,
      [&](int) {
        const auto input = here.strategy.distribute_datasets_from_function(
            [&](const InputContext&) { return slow.batch(4).prefetch(1); });
        auto it = input.begin();
        here.strategy.run([](const Tensor& own) { (void)sum(own); }, *it);
      },
      test::kMoreBytesOfThreads);
}

TEST(SteadyCalls, OfControlFlowAddNothing) {
  const Variable v(2.f);
  drive("cond", calls(1000), process_holdings, [&](int i) {
    GradientTape tape;
    const Tensor y = cond(
        Tensor(i % 2 == 0), [&] { return v * 3.f; }, [&] { return square(v); });
    (void)tape.gradient(y, {v});
  });
  drive("while_loop", calls(500), process_holdings, [&](int) {
    GradientTape tape;
    const Tensor y =
        while_loop([](std::span<const Tensor> state) { return state[0] < 100.f; },
                   [&](std::span<const Tensor> state) { return std::vector<Tensor>{state[0] * v}; },
                   {Tensor(1.f)})[0];
    (void)tape.gradient(y, {v});
  });
}

TEST(SteadyCalls, OfACheckpointManagerAddNothing) {
  Replicas here;
  const TemporaryDirectory directory;
  CheckpointManager manager(Checkpoint({{"w", here.w}, {"adam", here.adam}}), directory.path(),
                            {.max_to_keep = 2});
  drive("save and restore_latest", calls(50), process_holdings, [&](int) {
    const std::string saved = manager.save();
    EXPECT_EQ(manager.restore_latest(), saved);
    EXPECT_LE(manager.checkpoints().size(), 2u);
  });
}

}  // namespace
}  // namespace cohort
