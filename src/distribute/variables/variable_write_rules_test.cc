// Rules of writes to a strategy's variables that are no line of the table in
// variable_writes_test.cc: what they return, who sees them, and writes at the same time.

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <thread>

#include "base/raise.h"
#include "cohort/dataset.h"
#include "cohort/function.h"
#include "cohort/ops.h"
#include "cohort/optim.h"
#include "runtime/compiled_trace.h"
#include "support/expect_error.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

using internal::expect_error;

TEST(VariableWrites, OfEqualComponentsAreAddedUpInEveryForm) {
  const auto strategy = mirrored_strategy(2);
  const auto n =
      strategy->distribute_values_from_function([](ValueContext) { return Tensor(2.f); });
  Variable total =
      strategy->create([] { return Variable(0.f, {.aggregation = VariableAggregation::Sum}); });
  strategy->run([&] { total.assign(n); });
  EXPECT_EQ(copy_values(total), (std::vector<float>{4, 4}));
  strategy->run(function([&](const Tensor& own) { total.assign_add(own); }), n);
  EXPECT_EQ(copy_values(total), (std::vector<float>{8, 8}));
  function([&](const PerReplica<Tensor>& all) { strategy->run([&] { total.assign_add(all); }); })(
      n);
  EXPECT_EQ(copy_values(total), (std::vector<float>{12, 12}));
}

TEST(VariableWrites, OfACommonNumberToASumAreRefusedInTracedFunctionsToo) {
  const auto strategy = mirrored_strategy(2);
  Variable v =
      strategy->create([] { return Variable(1.f, {.aggregation = VariableAggregation::Sum}); });
  expect_error([&] { strategy->run(function([&] { return v.assign_add(1.f); })); }, "'Variable'");
  expect_error(
      [&] { function([&] { return strategy->run([&] { return v.assign_add(1.f); }); })(); },
      "'Variable'");
}

TEST(VariableWrites, ReturnTheNewValueAsTheContextSeesIt) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable mean(1.f, {.aggregation = VariableAggregation::Mean});
  EXPECT_EQ(mean.assign_add(2.f).to<float>(), 3);
  const auto seen = strategy->run([&] {
    return mean.assign_add(Tensor({2.f, 4.f})[get_replica_context()->replica_id_in_sync_group()]);
  });
  EXPECT_EQ(seen[0].to<float>(), 6);
  EXPECT_EQ(seen[1].to<float>(), 6);
  Variable sum(0.f, {.synchronization = VariableSynchronization::OnRead,
                     .aggregation = VariableAggregation::Sum});
  EXPECT_EQ(sum.assign(8.f).to<float>(), 8);
}

TEST(VariableWrites, HaveReachedEveryCopyWhenTheyReturn) {
  MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});
  const Variable variable = strategy.create(
      [] { return Variable(Tensor({0.f}), {.aggregation = VariableAggregation::Sum}); });
  const std::vector<Variable> copies = strategy.local_results(variable);
  const IndexedSlices row{Tensor({1.f}), Tensor({int64_t{0}}), {1}};
  float wanted = 0;
  const auto step = [&](const auto& write) {
    wanted += 3;
    strategy.run([&] {
      write();
      for (const Variable& copy : copies) EXPECT_EQ(copy.read_value().to<float>(), wanted);
      get_replica_context()->merge_call([](Strategy&) {});
    });
  };
  for (int i = 0; i < 100; ++i) {
    step([&] { Variable(variable).assign_add(ones({1})); });
    step([&] { Variable(variable).scatter_add(row); });
  }
}

TEST(VariableWrites, OfAMirroredVariableGoCopyByCopy) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable from(0.f);
  Variable to(10.f);
  strategy->run([&] {
    from.assign(static_cast<float>(get_replica_context()->replica_id_in_sync_group() + 1));
  });
  to.assign_add(from);
  EXPECT_EQ(copy_values(to), (std::vector<float>{11, 12}));
}

TEST(VariableWrites, OfOneTensorFromAllReplicasAreWritesOfComponents) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable v(0.f);
  const Tensor one(3.f);
  const auto both = strategy->run([&] { return one; });
  expect_error([&] { v.assign_add(both); }, "PerReplica");
  v.assign_add(Tensor(both));  // which it converts to, since it is one
  EXPECT_EQ(copy_values(v), (std::vector<float>{3, 3}));
}

TEST(VariableWrites, OfDifferentVariablesAtOneRendezvousNameBoth) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable a(0.f, {.name = "a", .aggregation = VariableAggregation::Sum});
  Variable b(0.f, {.name = "b", .aggregation = VariableAggregation::Sum});
  expect_error(
      [&] {
        strategy->run([&] {
          const int r = get_replica_context()->replica_id_in_sync_group();
          (r == 0 ? a : b).assign_add(Tensor(static_cast<float>(r)));
        });
      },
      "'b'", Code::FailedPrecondition);
}

// In a traced step, too: replica 1 calls `other`.
void expect_told_apart(Strategy& strategy, const std::string& message,
                       const std::function<void()>& first, const std::function<void()>& other) {
  const auto step = [&] {
    get_replica_context()->replica_id_in_sync_group() == 1 ? other() : first();
    return Tensor(0.f);
  };
  expect_error([&] { strategy.run(step); }, message, Code::FailedPrecondition);
  expect_error([&] { strategy.run(function(step)); }, message, Code::FailedPrecondition);
  expect_error([&] { function([&] { return strategy.run(step)[0]; })(); }, message,
               Code::FailedPrecondition);
}

TEST(VariableWrites, OfDifferentKindsAtOneRendezvousNameBoth) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), mirrored_strategy(3),
                                                  central_strategy(2)};
  for (const auto& strategy : strategies) {
    Variable v = strategy->create([] {
      return Variable({1.f, 2.f}, {.name = "v", .aggregation = VariableAggregation::Mean});
    });
    const Tensor value({4.f, 4.f});
    const IndexedSlices row{Tensor({3.f}), Tensor({int64_t{0}}), {2}};
    expect_told_apart(
        *strategy, "assign_add", [&] { v.assign(value); }, [&] { v.assign_add(value); });
    expect_told_apart(
        *strategy, "assign_sub", [&] { v.assign_add(value); }, [&] { v.assign_sub(value); });
    expect_told_apart(
        *strategy, "scatter_mul", [&] { v.scatter_add(row); }, [&] { v.scatter_mul(row); });
    EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{1, 2}));
  }
}

TEST(VariableWrites, OfVariablesWithOneNameAreToldApart) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), mirrored_strategy(3),
                                                  central_strategy(2)};
  for (const auto& strategy : strategies) {
    const StrategyScope scope(*strategy);
    Variable a({1.f}, {.aggregation = VariableAggregation::Sum});
    Variable b({1.f}, {.aggregation = VariableAggregation::Sum});
    const IndexedSlices row{Tensor({3.f}), Tensor({int64_t{0}}), {1}};
    expect_told_apart(
        *strategy, "Variable", [&] { a.assign_add(ones({1})); }, [&] { b.assign_add(ones({1})); });
    expect_told_apart(
        *strategy, "Variable", [&] { a.scatter_add(row); }, [&] { b.scatter_add(row); });
    EXPECT_EQ(copy_values(a), std::vector<float>(copy_values(a).size(), 1));
    EXPECT_EQ(copy_values(b), copy_values(a));
  }
}

TEST(VariableWrites, InAnotherStrategysScopeAreAnError) {
  const auto first = mirrored_strategy(2);
  const auto second = mirrored_strategy(2);
  Variable v = first->create([] { return Variable(1.f); });
  v.assign(2.f);  // no scope: the variable's own is opened for the call
  EXPECT_EQ(copy_values(v), (std::vector<float>{2, 2}));
  const StrategyScope scope(*second);
  expect_error([&] { v.assign(3.f); }, "another strategy", Code::FailedPrecondition);
  expect_error([&] { v.read_value(); }, "another strategy", Code::FailedPrecondition);
  expect_error([&] { v.deep_copy(); }, "another strategy", Code::FailedPrecondition);
  expect_error([&] { second->reduce(ReduceOp::Mean, v); }, "another strategy",
               Code::FailedPrecondition);
  expect_error([&] { second->gather(v, 0); }, "another strategy", Code::FailedPrecondition);
  expect_error([&] { second->run([&] { return v.assign(3.f); }); }, "another strategy",
               Code::FailedPrecondition);
  EXPECT_EQ(copy_values(v), (std::vector<float>{2, 2}));
}

TEST(VariableWrites, OfAnotherStrategysUpdateAreAnError) {
  const auto first = mirrored_strategy(2);
  Variable v = first->create([] { return Variable(1.f); });
  OneDeviceStrategy one("CPU:0");
  const auto central = central_strategy(2);
  for (Strategy* other : {static_cast<Strategy*>(&one), central.get()}) {
    const auto write = [](Variable copy) { copy.assign(3.f); };
    expect_error([&] { other->extended().update(v, write); }, "another strategy",
                 Code::FailedPrecondition);
  }
  EXPECT_EQ(copy_values(v), (std::vector<float>{1, 1}));
}

TEST(VariableWrites, InAnUpdateOfOneCopyAreEveryReplicas) {
  const auto strategy = central_strategy(2);
  const Variable v = strategy->create([] { return Variable(1.f); });
  const auto add = [](Variable copy, const Tensor& delta) { return copy.assign_add(delta); };
  const auto seen = strategy->run(
      [&] { return Tensor(strategy->extended().update(v, add, Tensor(2.f))).to<float>(); });
  EXPECT_EQ(seen.value(), 3);
  EXPECT_EQ(copy_values(v), (std::vector<float>{3}));
}

TEST(VariableWrites, InAnUpdateOfPlacesGoToTheirCopies) {
  const auto strategy = mirrored_strategy(2);
  Variable v = strategy->create([] { return Variable(0.f); });
  const auto update = [&] {
    strategy->extended().update_non_slot(Destinations(v), [&] {
      EXPECT_TRUE(in_cross_replica_context());
      v.assign_add(1.f);
    });
  };
  update();
  EXPECT_EQ(copy_values(v), (std::vector<float>{1, 1}));
  const StrategyScope scope(*strategy);
  update();
  EXPECT_EQ(copy_values(v), (std::vector<float>{2, 2}));
}

// How often the copies differ after two threads have called `write` at the same time.
int divergences(const Variable& v, const std::function<void(float)>& write) {
  constexpr int kRounds = 300;
  std::barrier together(2);
  const auto round_of = [&](float value) {
    together.arrive_and_wait();
    for (int i = 0; i < 4; ++i) write(value);
    together.arrive_and_wait();
  };
  std::thread other([&] {
    for (int round = 0; round < kRounds; ++round) round_of(-1.f);
  });
  int different = 0;
  for (int round = 0; round < kRounds; ++round) {
    round_of(1.f);
    const std::vector<float> copies = copy_values(v);
    different += copies != std::vector<float>(copies.size(), copies[0]) ? 1 : 0;
  }
  other.join();
  return different;
}

TEST(VariableWrites, OfTwoThreadsLeaveTheCopiesAlike) {
  const auto strategy = mirrored_strategy(64);  // many, so that writes overlap
  Variable v = strategy->create([] { return Variable(0.f); });
  EXPECT_EQ(divergences(v, [&](float value) { v.assign(value); }), 0);
}

TEST(VariableWrites, OfTwoRunsLeaveTheCopiesAlike) {
  const auto strategy = mirrored_strategy(3);
  Variable v =
      strategy->create([] { return Variable(0.f, {.aggregation = VariableAggregation::Mean}); });
  const auto run = [&](float value) { strategy->run([&] { v.assign(Tensor({value})[0]); }); };
  EXPECT_EQ(divergences(v, run), 0);
}

TEST(VariableWrites, OfRowsByTwoRunsLeaveTheCopiesAlike) {
  const auto strategy = mirrored_strategy(3);
  Variable v = strategy->create(
      [] { return Variable({0.f}, {.aggregation = VariableAggregation::OnlyFirstReplica}); });
  const auto run = [&](float value) {
    strategy->run([&] { v.scatter_update({Tensor({value}), Tensor({0}), Shape{1}}); });
  };
  EXPECT_EQ(divergences(v, run), 0);
}

TEST(VariableWrites, ByOptimizersOfTwoRunsLeaveTheCopiesAlike) {
  for (const int replicas : {2, 3}) {  // two add up the gradients as they update, three before
    const auto strategy = mirrored_strategy(replicas);
    const StrategyScope scope(*strategy);
    const Variable v(0.f);
    optim::Adam optimizer({.learning_rate = 0.1});
    const auto run = [&](float value) {
      strategy->run([&] { optimizer.apply_gradients({Tensor({value})[0]}, {v}); });
    };
    run(1.f);  // makes what the optimizer keeps
    EXPECT_EQ(divergences(v, run), 0);
  }
}

// Whether the copies differ after two threads have made many writes of their own at the same time:
// what one has done in another order stays different.
bool many_writes_diverge(const Variable& v, const std::function<void(float)>& write) {
  constexpr int kWrites = 400;
  std::barrier together(2);
  const auto write_all = [&](float value) {
    write(value);  // traces
    together.arrive_and_wait();
    for (int i = 0; i < kWrites; ++i) write(value);
  };
  std::thread other([&] { write_all(-1.f); });
  write_all(1.f);
  other.join();
  const std::vector<float> copies = copy_values(v);
  return copies != std::vector<float>(copies.size(), copies[0]);
}

// One of the threads turns the sign, the other one adds.
void turn_or_add(Variable& v, float sign) {
  v.scatter_mul({Tensor({sign}), Tensor({0}), Shape{1}});
  v.scatter_add({Tensor({1.f + sign}), Tensor({0}), Shape{1}});
}

TEST(VariableWrites, InFunctionsOfTwoRunsLeaveTheCopiesAlike) {
  for (const int replicas : {2, 3}) {
    const auto strategy = mirrored_strategy(replicas);
    Variable v = strategy->create(
        [] { return Variable({0.f}, {.aggregation = VariableAggregation::OnlyFirstReplica}); });
    const auto turn = function([&] { turn_or_add(v, -1.f); });
    const auto add = function([&] { turn_or_add(v, 1.f); });
    const auto run = [&](float sign) { sign < 0 ? strategy->run(turn) : strategy->run(add); };
    EXPECT_FALSE(many_writes_diverge(v, run)) << replicas;
  }
}

TEST(VariableWrites, InFunctionsAroundTwoRunsLeaveTheCopiesAlike) {
  for (const int replicas : {2, 3}) {
    const auto strategy = mirrored_strategy(replicas);
    Variable v = strategy->create(
        [] { return Variable({0.f}, {.aggregation = VariableAggregation::OnlyFirstReplica}); });
    const auto turn = function([&] { strategy->run([&] { turn_or_add(v, -1.f); }); });
    const auto add = function([&] { strategy->run([&] { turn_or_add(v, 1.f); }); });
    EXPECT_FALSE(many_writes_diverge(v, [&](float sign) { sign < 0 ? turn() : add(); }))
        << replicas;
  }
}

TEST(VariableWrites, ByOptimizersInFunctionsOfTwoRunsLeaveTheCopiesAlike) {
  for (const int replicas : {2, 3}) {
    const auto strategy = mirrored_strategy(replicas);
    const StrategyScope scope(*strategy);
    const Variable v(0.f);
    optim::Adam optimizer({.learning_rate = 0.1});
    const auto step =
        function([&](const Tensor& slope) { optimizer.apply_gradients({slope}, {v}); });
    const auto run = [&](float slope) { strategy->run(step, Tensor(slope)); };
    run(1.f);  // makes what the optimizer keeps
    EXPECT_FALSE(many_writes_diverge(v, run)) << replicas;
  }
}

TEST(VariableWrites, ByUpdatesOfTwoThreadsLeaveTheCopiesAlike) {
  const auto strategy = mirrored_strategy(64);
  Variable v = strategy->create([] { return Variable(0.f); });
  const auto update = [&](float value) {
    strategy->extended().update(v, [&](Variable copy) { copy.assign(value); });
  };
  EXPECT_EQ(divergences(v, update), 0);
}

// As a dataset may whose elements a replica waits for.
TEST(VariableWrites, OfAThreadThatAReplicaWaitsForHappen) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable v({0.f}, {.aggregation = VariableAggregation::Sum});
  Variable seen(0.f);
  optim::Sgd optimizer({.learning_rate = 1});
  strategy->run([&] { optimizer.apply_gradients({ones({1})}, {v}); });
  const std::function<void()> writes[] = {
      [&] { v.assign_add(ones({1})); },
      [&] {
        v.scatter_add({Tensor({1.f}), Tensor({int64_t{0}}), Shape{1}});
      },
      [&] { optimizer.apply_gradients({ones({1})}, {v}); }};
  for (const auto& write : writes) {
    strategy->run([&] {
      if (get_replica_context()->replica_id_in_sync_group() == 1) {
        std::thread([&] { seen.assign_add(1.f); }).join();
      }
      write();
    });
  }
  EXPECT_EQ(copy_values(seen), (std::vector<float>{3, 3}));
  EXPECT_EQ(copy_values(v), (std::vector<float>{0, 0}));
}

TEST(VariableWrites, GoOnAfterOneThatFailed) {
  const auto strategy = mirrored_strategy(2);
  Variable v =
      strategy->create([] { return Variable({0.f}, {.aggregation = VariableAggregation::Sum}); });
  const auto add = [&](int64_t row) {
    strategy->run([&] {
      if (row < 0 && get_replica_context()->replica_id_in_sync_group() == 1) {
        internal::raise(Code::Aborted, "no rows");
      }
      v.scatter_add({Tensor({1.f}), Tensor({row}), Shape{1}});
    });
  };
  add(0);
  expect_error([&] { add(-1); }, "no rows", Code::Aborted);
  EXPECT_FALSE(capture_status([&] { add(7); }).ok());
  add(0);
  EXPECT_EQ(copy_values(v), (std::vector<float>{4, 4}));
}

// A replica may catch the error and go on: then its run does not keep others from writing.
TEST(VariableWrites, InFunctionsGoOnAfterOneThatFailed) {
  const auto strategy = mirrored_strategy(2);
  Variable v =
      strategy->create([] { return Variable({0.f}, {.aggregation = VariableAggregation::Sum}); });
  const auto add = function([&](const Tensor& row) {
    v.scatter_add({Tensor({1.f}), reshape(row, {1}), Shape{1}});
  });
  strategy->run([&] {
    add(Tensor(0));
    EXPECT_FALSE(capture_status([&] { add(Tensor(7)); }).ok());
    if (get_replica_context()->replica_id_in_sync_group() == 0) {
      std::thread([&] { v.assign_add(Tensor({1.f})); }).join();
    }
    add(Tensor(0));
  });
  EXPECT_EQ(copy_values(v), (std::vector<float>{5, 5}));
  const auto around = function([&](const Tensor& row) {
    strategy->run([&] { v.scatter_add({Tensor({1.f}), reshape(row, {1}), Shape{1}}); });
  });
  EXPECT_FALSE(capture_status([&] { around(Tensor(7)); }).ok());
  around(Tensor(0));
  EXPECT_EQ(copy_values(v), (std::vector<float>{7, 7}));
}

// Else each of two threads could have the turn that the other one waits for.
TEST(VariableWrites, InFunctionsTakeTheTurnsOfTwoStrategiesInOneSequence) {
  const auto one = mirrored_strategy(2), other = mirrored_strategy(2);
  Variable a = one->create([] { return Variable(0.f); });
  Variable b = other->create([] { return Variable(0.f); });
  const auto forth = function([&] {
    a.assign_add(1.f);
    b.assign_add(1.f);
  });
  const auto back = function([&] {
    b.assign_add(1.f);
    a.assign_add(1.f);
  });
  const internal::EffectOrders& orders = internal::Access::trace(forth).trace->settings().orders();
  EXPECT_EQ(orders.size(), 2U);
  EXPECT_EQ(internal::Access::trace(back).trace->settings().orders(), orders);
}

// The data of a traced step come from a thread that writes a variable of the same strategy.
TEST(VariableWrites, InFunctionsDoNotWaitForEverForWhatWaitsForThem) {
  const auto strategy = mirrored_strategy(2);
  Variable sent = strategy->create([] { return Variable(0.f); });
  Variable v = strategy->create([] { return Variable(0.f); });
  Status of_writer;
  const auto next = [&]() -> std::optional<data::Element> {
    std::thread([&] { of_writer = capture_status([&] { sent.assign_add(Tensor(1.f)); }); }).join();
    return data::Element(Tensor(1.f));
  };
  const data::Dataset elements = data::generator([&]() -> data::NextFunction { return next; },
                                                 data::ElementSpec(data::Element(Tensor(0.f))));
  const auto step = function([&](data::Iterator given) { v.assign(given.next().tensor()); });
  step(elements.iterator());
  EXPECT_EQ(of_writer.code, Code::FailedPrecondition) << of_writer;
  EXPECT_EQ(copy_values(v), (std::vector<float>{1, 1}));
}

TEST(VariableWrites, OfTheFirstReplicasTruthAreTraced) {
  const auto strategy = mirrored_strategy(2);
  Variable v = strategy->create(
      [] { return Variable(false, {.aggregation = VariableAggregation::OnlyFirstReplica}); });
  const auto step = function([&](const Tensor& value) { return v.assign(value); });
  const auto truths = strategy->distribute_values_from_function(
      [](ValueContext context) { return Tensor(context.replica_id_in_sync_group == 0); });
  const auto written = strategy->run(step, truths);
  EXPECT_TRUE(written[0].to<bool>() && written[1].to<bool>());
}

TEST(VariableWrites, OfAnOrdinaryVariableHappenOncePerReplica) {
  const auto strategy = mirrored_strategy(3);
  Variable v(0.f);
  strategy->run([&] { v.assign_add(1.f); });
  EXPECT_EQ(v.read_value().to<float>(), 3);
}

}  // namespace
}  // namespace cohort
