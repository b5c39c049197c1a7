// Calls of strategies with a central copy or several workers, and of variables in shards, made
// again and again, leave nothing behind.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "steady/holdings.h"
#include "support/local_workers.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::process_holdings;

TEST(SteadyCalls, OfACentralStorageStrategyAddNothing) {
  CentralStorageStrategy strategy({.compute_devices = {"CPU:0", "CPU:1"}});
  const StrategyScope scope = strategy.scope();
  Variable w(1.f, {.name = "w", .aggregation = VariableAggregation::Mean});
  optim::Adam adam{{.learning_rate = 0.1}};
  const auto train = [&] {
    GradientTape tape;
    const Tensor loss = square(w - 3.f);
    adam.apply_gradients(tape.gradient(loss, {w}), {w});
  };
  const auto step = function(train);
  drive("run(lambda)", calls(1000), process_holdings, [&](int) { strategy.run(train); });
  drive("run(function)", calls(1000), process_holdings, [&](int) { strategy.run(step); });
  drive("reduce", calls(1000), process_holdings,
        [&](int) { (void)strategy.reduce(ReduceOp::Sum, strategy.run([&] { return w * 2.f; })); });
  drive("assign", calls(1000), process_holdings, [&](int i) { w.assign(float(i)); });
  drive("read", calls(1000), process_holdings, [&](int) { (void)w.read_value(); });
  drive("variables that are dropped", calls(500), process_holdings,
        [](int) { const Variable dropped(zeros({1000})); });
}

// What a session's program asks about variables of a strategy, without building anything.
void drive_session(Strategy& strategy, bool is_finalized) {
  const StrategyScope scope = strategy.scope();
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  const Variable on_read(1.f, {.name = "on_read",
                               .synchronization = VariableSynchronization::OnRead,
                               .aggregation = VariableAggregation::Sum});
  const optim::Sgd sgd{{.learning_rate = optim::exponential_decay({.initial_rate = 0.1})}};
  const Variable iterations = sgd.iterations();
  Session session(graph);
  session.run(global_variables_initializer());
  if (is_finalized) graph.finalize();
  const std::pair<std::string, std::function<Tensor()>> questions[] = {
      {"run(w)", [&] { return Tensor(w); }},
      {"run(on_read)", [&] { return Tensor(on_read); }},
      {"run(on_read.read_value()) outside the scope",
       [&] {
         const Graph::Scope outside(nullptr);
         return on_read.read_value();
       }},
      {"run(iterations)", [&] { return Tensor(iterations); }},
      {"learning_rate()", [&] { return sgd.learning_rate(); }},
      {"is_variable_initialized(w)", [&] { return is_variable_initialized(w); }},
      {"is_variable_initialized(on_read)", [&] { return is_variable_initialized(on_read); }},
      {"report_uninitialized_variables",
       [&] {
         return report_uninitialized_variables({w, on_read});
       }},
  };
  const auto measure = [&] {
    test::Holdings all = process_holdings();
    all["nodes"] = static_cast<int64_t>(graph.size());
    return all;
  };
  for (const auto& question : questions) {
    drive(question.first, is_finalized ? calls(20) : calls(500), measure,
          [&](int) { session.run(question.second()); });
  }
}

TEST(SteadyCalls, OfASessionWithVariablesOfAStrategyAddNothing) {
  const std::vector<std::string> devices{"CPU:0", "CPU:1"};
  MirroredStrategy mirrored(devices);
  CentralStorageStrategy central({.compute_devices = devices});
  for (Strategy* const strategy :
       {static_cast<Strategy*>(&mirrored), static_cast<Strategy*>(&central)}) {
    SCOPED_TRACE(strategy->extended().name());
    drive_session(*strategy, false);
    drive_session(*strategy, true);
  }
}

// Two workers make the calls; the chief measures.
void drive_worker(MultiWorkerMirroredStrategy& strategy, const std::string& what, int count,
                  const std::function<void()>& call) {
  if (strategy.is_chief()) {
    drive(
        what, count, process_holdings, [&](int) { call(); }, test::kMoreBytesOfThreads);
    return;
  }
  for (int i = 0; i < test::all_calls(count); ++i) call();
}

void drive_calls_of_worker(MultiWorkerMirroredStrategy& strategy) {
  const StrategyScope scope = strategy.scope();
  Variable w(1.f, {.name = "w"});
  optim::Sgd sgd{{.learning_rate = 0.1}};
  const auto train = [&] { sgd.minimize([&] { return square(w - 3.f); }, {w}); };
  const auto step = function(train);
  drive_worker(strategy, "run(lambda)", calls(300), [&] { strategy.run(train); });
  drive_worker(strategy, "run(function)", calls(300), [&] { strategy.run(step); });
  drive_worker(strategy, "reduce", calls(300), [&] {
    (void)strategy.reduce(ReduceOp::Sum, strategy.run([] { return Tensor(1.f); }));
  });
  drive_worker(strategy, "gather", calls(300), [&] {
    (void)strategy.gather(strategy.run([] { return zeros({1, 2}); }), 0);
  });
  StrategyExtended& extended = strategy.extended();
  drive_worker(strategy, "what workers exchange", calls(300), [&] {
    (void)extended.sum_over_workers({});
    (void)extended.sum_numbers({1}, "a number");
    (void)extended.gather_from_workers("text", "a text");
    (void)extended.from_first_worker(Tensor(1.f));
  });
  drive_worker(strategy, "assign", calls(300), [&] { w.assign(1.f); });
  drive_worker(strategy, "read", calls(300), [&] { (void)w.read_value(); });
  drive_worker(strategy, "variables that are dropped", calls(100),
               [] { const Variable dropped(zeros({1000})); });
  const auto dataset = data::range(8).batch(4);
  drive_worker(strategy, "walks", calls(50), [&] {
    for (const auto& batch : strategy.distribute_dataset(dataset)) {
      strategy.run([](const Tensor& own) { (void)sum(own); }, batch);
    }
  });
}

TEST(SteadyCalls, OfAMultiWorkerStrategyAddNothing) { test::on_workers(2, drive_calls_of_worker); }

// Each takes some tenths of a second: two servers begin and end.
TEST(SteadyCalls, OfMultiWorkerStrategiesThatAreDroppedAddNothing) {
  drive(
      "strategies of two workers", std::min(calls(5), 50), process_holdings,
      [](int) {
        test::on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
          (void)strategy.reduce(ReduceOp::Sum, strategy.run([] { return Tensor(1.f); }));
        });
      },
      test::kMoreBytesOfThreads);
}

TEST(SteadyCalls, OfAShardedVariableAddNothing) {
  Variable first(zeros({4, 2}), {.name = "first"});
  Variable second(zeros({4, 2}), {.name = "second"});
  ShardedVariable table({first, second});
  const Tensor ids({int64_t{1}, int64_t{6}});
  const IndexedSlices rows{zeros({2, 2}), ids, Shape{8, 2}};
  const Tensor whole = zeros({8, 2});
  optim::Sgd sgd;
  drive("assign", calls(1000), process_holdings, [&](int) { table.assign(whole); });
  drive("assign_add", calls(1000), process_holdings, [&](int) { table.assign_add(whole); });
  drive("scatter_add", calls(1000), process_holdings, [&](int) { table.scatter_add(rows); });
  drive("scatter_update", calls(1000), process_holdings, [&](int) { table.scatter_update(rows); });
  drive("read_value", calls(1000), process_holdings, [&](int) { (void)table.read_value(); });
  drive("sparse_read", calls(1000), process_holdings, [&](int) { (void)table.sparse_read(ids); });
  drive("one row", calls(1000), process_holdings, [&](int) { (void)table[5]; });
  drive("slice", calls(1000), process_holdings,
        [&](int) { (void)table.slice({{.begin = 2, .end = 6}}); });
  drive("training steps", calls(300), process_holdings, [&](int) {
    sgd.minimize([&] { return sum(square(nn::embedding_lookup(table, ids))); }, {table});
  });
  drive("tables that are dropped", calls(300), process_holdings, [](int) {
    const ShardedVariable dropped({Variable(zeros({50, 10})), Variable(zeros({50, 10}))});
    (void)dropped.read_value();
  });
}

}  // namespace
}  // namespace cohort
