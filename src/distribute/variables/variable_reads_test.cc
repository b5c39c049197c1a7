// Making, reading, printing and copying variables of strategies.

#include <gtest/gtest.h>

#include <sstream>

#include "cohort/graph.h"
#include "cohort/graph_variable.h"
#include "cohort/ops.h"
#include "cohort/random.h"
#include "cohort/session.h"
#include "cohort/variable.h"
#include "support/expect_error.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

using internal::expect_error;

constexpr auto kOnRead = VariableSynchronization::OnRead;

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

// With the copies 3, 5, 10, 2.
Variable on_read(Strategy& strategy, VariableAggregation aggregation) {
  Variable v = strategy.create([&] {
    return Variable(0.f, {.name = "v", .synchronization = kOnRead, .aggregation = aggregation});
  });
  strategy.run([&] { v.assign(Tensor({3.f, 5.f, 10.f, 2.f})[replica_id()]); });
  return v;
}

TEST(VariableReads, OutsideOfReplicasAggregateTheCopies) {
  const auto strategy = mirrored_strategy(4);
  const struct {
    VariableAggregation aggregation;
    float value;
  } cases[] = {{VariableAggregation::Sum, 20},
               {VariableAggregation::Mean, 5},
               {VariableAggregation::OnlyFirstReplica, 3}};
  for (const auto& c : cases) {
    const Variable v = on_read(*strategy, c.aggregation);
    EXPECT_EQ(v.read_value().to<float>(), c.value);
    const StrategyScope scope(*strategy);
    EXPECT_EQ((v + 1.f).to<float>(), c.value + 1);
    EXPECT_EQ(strategy->extended().read_var(v).to<float>(), c.value);
  }
}

TEST(VariableReads, InAReplicaGiveItsOwnCopy) {
  const auto strategy = mirrored_strategy(4);
  for (const VariableAggregation aggregation :
       {VariableAggregation::None, VariableAggregation::Sum, VariableAggregation::Mean,
        VariableAggregation::OnlyFirstReplica}) {
    const Variable v = on_read(*strategy, aggregation);
    const auto plus_one = strategy->run([&] { return v + 1.f; });
    for (size_t r = 0; r < 4; ++r) {
      EXPECT_EQ(plus_one[r].to<float>(), (std::vector<float>{4, 6, 11, 3})[r]);
    }
  }
}

TEST(VariableReads, InAnUpdateGiveTheCopyBeingUpdated) {
  const auto strategy = mirrored_strategy(4);
  const StrategyScope scope(*strategy);
  const Variable v = on_read(*strategy, VariableAggregation::Sum);
  std::vector<float> seen;
  strategy->extended().update(v, [&](const Variable&) {
    seen.push_back(v.read_value().to<float>());
    return v.read_value();
  });
  EXPECT_EQ(seen, (std::vector<float>{3, 5, 10, 2}));
}

TEST(VariableReads, AcrossReplicasAreThatInAnUpdateToo) {
  const auto strategy = mirrored_strategy(4);
  const Variable v = on_read(*strategy, VariableAggregation::Sum);
  StrategyExtended& extended = strategy->extended();
  std::vector<float> seen;
  extended.update(v, [&](const Variable&) { seen.push_back(extended.read_var(v).to<float>()); });
  EXPECT_EQ(seen, std::vector<float>(4, 20));
}

TEST(VariableReads, WhereTheDefaultStrategyIsAreThoseOfNoStrategy) {
  const auto strategy = mirrored_strategy(4);
  Variable v = on_read(*strategy, VariableAggregation::Sum);
  const auto sum = [&] { return v.read_value().to<float>(); };
  EXPECT_EQ(get_replica_context()->merge_call([&](Strategy&) { return sum(); }), 20);
  EXPECT_EQ(get_strategy().run(sum).value(), 20);
  get_strategy().run([&] { v.assign(8.f); });
  EXPECT_EQ(copy_values(v), std::vector<float>(4, 2));
}

TEST(VariableReads, WithoutAggregationExistOnlyInReplicas) {
  const auto strategy = mirrored_strategy(4);
  const Variable v = on_read(*strategy, VariableAggregation::None);
  expect_error([&] { v.read_value(); }, "aggregation None");
  expect_error([&] { v + 1.f; }, "'v'");
}

TEST(VariableReads, OfMirroredCopiesGiveTheOneOnTheCurrentDevice) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable v(0.f);
  strategy->run([&] { v.assign(static_cast<float>(replica_id() + 1)); });
  EXPECT_EQ(v.read_value().to<float>(), 1);
  const auto there = device("CPU:1");
  EXPECT_EQ(v.read_value().to<float>(), 2);
  EXPECT_EQ(strategy->run([&] { return v.read_value(); })[1].to<float>(), 2);
}

TEST(VariableReads, OfOneCopyAreThatEverywhere) {
  const auto strategy = central_strategy(2);
  const StrategyScope scope(*strategy);
  Variable v(7.f, {.aggregation = VariableAggregation::Sum});
  EXPECT_EQ(v.read_value().to<float>(), 7);
  const auto seen = strategy->run([&] { return v.read_value(); });
  EXPECT_EQ(seen[1].to<float>(), 7);
}

TEST(VariableReads, DoNotChangeWhenTheVariableDoes) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable v(1.f);
  const Tensor before = v;
  v.assign_add(1.f);
  EXPECT_EQ(before.to<float>(), 1);
}

TEST(VariableReads, CanBeForcedToAgreeInReplicas) {
  const auto strategy = mirrored_strategy(2);
  const struct {
    VariableAggregation aggregation;
    float value;
  } cases[] = {{VariableAggregation::Sum, 13},
               {VariableAggregation::Mean, 11.5},
               {VariableAggregation::OnlyFirstReplica, 11}};
  for (const auto& c : cases) {
    Variable v = strategy->create(
        [&] { return Variable(0.f, {.synchronization = kOnRead, .aggregation = c.aggregation}); });
    strategy->run([&] { v.assign(static_cast<float>(replica_id() + 1)); });
    const auto forced = strategy->run([&] {
      const auto sync = variable_sync_on_read_context();
      return v + 10.f;
    });
    EXPECT_EQ(forced[0].to<float>(), c.value);
    EXPECT_EQ(forced[1].to<float>(), c.value);
    EXPECT_EQ(strategy->run([&] { return v + 10.f; })[1].to<float>(), 12);
    expect_error(
        [&] {
          strategy->run([&] {
            const auto sync = variable_sync_on_read_context();
            return v.read_value();
          });
        },
        "variable_sync_on_read_context", Code::Unimplemented);
  }
}

TEST(VariableReads, CanBeForcedToTheFirstReplicasTruth) {
  const auto strategy = mirrored_strategy(2);
  Variable v = strategy->create([&] {
    return Variable(
        false, {.synchronization = kOnRead, .aggregation = VariableAggregation::OnlyFirstReplica});
  });
  strategy->run([&] { v.assign(Tensor(replica_id() == 0)); });
  const auto forced = strategy->run([&] {
    const auto sync = variable_sync_on_read_context();
    return Tensor(v).to<bool>();
  });
  EXPECT_TRUE(forced[0] && forced[1]);
}

TEST(VariableReads, AreForcedInAllReplicasByTheCallerOfRun) {
  const auto strategy = mirrored_strategy(4);
  const Variable v = on_read(*strategy, VariableAggregation::Sum);
  const auto sync = variable_sync_on_read_context();
  const auto forced = strategy->run([&] { return (v + 1.f).to<float>(); });
  EXPECT_EQ(forced.value(), 21);
}

TEST(VariableCreation, EvaluatesTheInitialValueOnce) {
  const auto strategy = mirrored_strategy(3);
  for (const auto synchronization : {VariableSynchronization::OnWrite, kOnRead}) {
    int calls = 0;
    const Variable v = strategy->create([&] {
      return Variable(Initializer([&calls] {
                        ++calls;
                        return random::uniform({});
                      }),
                      {.synchronization = synchronization});
    });
    EXPECT_EQ(calls, 1);
    const std::vector<float> copies = copy_values(v);
    EXPECT_EQ(copies, std::vector<float>(3, copies[0]));
  }
}

TEST(VariableCreation, NamesPlacesAndDescribesTheCopies) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v({1.f, 2.f}, {.name = "w"});
  EXPECT_EQ(v.name(), "w");
  EXPECT_EQ(v.shape(), (Shape{2}));
  EXPECT_EQ(v.dtype(), kFloat32);
  EXPECT_TRUE(v.trainable());
  EXPECT_TRUE(v.is_initialized());
  EXPECT_EQ(v.synchronization(), VariableSynchronization::OnWrite);
  const std::vector<Variable>& copies = internal::distributed(v)->copies();
  EXPECT_EQ(copies[1].name(), "w/replica_1");
  EXPECT_EQ(copies[1].device(), canonical_device("CPU:1"));
  EXPECT_TRUE(strategy->extended().variable_created_in_scope(v));
  EXPECT_EQ(strategy->extended().value_container(copies[1]).to_string(), v.to_string());
}

// A variable of a strategy in a graph, and a session.
struct ReadInAGraph {
  ReadInAGraph(Strategy& strategy, VariableSynchronization synchronization)
      : scope(strategy),
        v(1.f, {.name = "v",
                .synchronization = synchronization,
                .aggregation = VariableAggregation::Mean}) {}

  float value(const Tensor& tensor) { return session.run(tensor).to<float>(); }

  StrategyScope scope;
  Graph graph;
  Graph::Scope building = graph.as_default();
  Variable v;
  Session session{graph};
};

void expect_one_conversion(Strategy& strategy, VariableSynchronization synchronization) {
  SCOPED_TRACE(strategy.extended().name());
  ReadInAGraph here(strategy, synchronization);
  here.session.run(global_variables_initializer());
  const Tensor once = here.v;
  EXPECT_EQ(here.value(once), 1);
  EXPECT_EQ(Tensor(here.v).name(), once.name());
  EXPECT_NE(here.v.read_value().name(), once.name());  // a read of the user's program
  here.graph.finalize();
  EXPECT_EQ(here.value(here.v), 1);
  EXPECT_ERROR(Code::FailedPrecondition, "finalized", here.v.read_value());
  const Graph::Scope outside(nullptr);
  EXPECT_EQ(here.v.read_value().name(), once.name());
}

TEST(VariableReads, WhereATensorOfAGraphIsWantedShareOneNode) {
  const auto mirrored = mirrored_strategy(2);
  const auto central = central_strategy(2);
  for (Strategy* const strategy : {mirrored.get(), central.get()}) {
    expect_one_conversion(*strategy, VariableSynchronization::Auto);
    expect_one_conversion(*strategy, kOnRead);
  }
}

TEST(VariableReads, OfAGraphInReplicasAreOfTheReplicasOwnCopies) {
  const auto strategy = mirrored_strategy(2);
  ReadInAGraph here(*strategy, kOnRead);
  const auto convert = [&] { return Tensor(here.v); };
  const auto first = strategy->run(convert);
  const auto second = strategy->run(convert);
  EXPECT_NE(first[0].name(), first[1].name());
  EXPECT_EQ(second[0].name(), first[0].name());
  EXPECT_EQ(second[1].name(), first[1].name());
}

TEST(VariableReads, OfAFinalizedGraphNeedNoEarlierQuestion) {
  const auto strategy = mirrored_strategy(2);
  ReadInAGraph here(*strategy, kOnRead);
  here.session.run(global_variables_initializer());
  here.graph.finalize();
  EXPECT_EQ(here.value(here.v), 1);
  EXPECT_TRUE(here.session.run(is_variable_initialized(here.v)).to<bool>());
  EXPECT_EQ(here.session.run(report_uninitialized_variables({here.v})).size(), 0);
}

void expect_all_copies_matter(Strategy& strategy, VariableSynchronization synchronization) {
  ReadInAGraph here(strategy, synchronization);
  const Tensor is_initialised = is_variable_initialized(here.v);
  const Tensor missing = report_uninitialized_variables({here.v});
  for (Variable copy : internal::distributed(here.v)->copies()) {
    EXPECT_FALSE(here.session.run(is_initialised).to<bool>());
    EXPECT_EQ(here.session.run(missing).to_vector<std::string>(), std::vector<std::string>{"v"});
    here.session.run(copy.assign(2.f));
  }
  EXPECT_TRUE(here.session.run(is_initialised).to<bool>());
  EXPECT_EQ(here.session.run(missing).size(), 0);
}

TEST(VariableReads, AreInitialisedInAGraphWhenAllCopiesAre) {
  const auto strategy = mirrored_strategy(2);
  expect_all_copies_matter(*strategy, VariableSynchronization::Auto);
  expect_all_copies_matter(*strategy, kOnRead);
}

TEST(VariableReads, OutsideOfGraphsAreInitialisedFromTheBeginning) {
  const auto strategy = mirrored_strategy(2);
  EXPECT_TRUE(is_variable_initialized(on_read(*strategy, VariableAggregation::Sum)).to<bool>());
}

TEST(VariableCreation, NamesCopiesInAGraphAfterTheOpenScopesOnce) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Graph graph;
  const auto building = graph.as_default();
  const NameScope main("main");
  const Variable v(1.f, {.name = "a"});
  const std::vector<Variable>& copies = internal::distributed(v)->copies();
  EXPECT_EQ(copies[0].name(), "main/a");
  EXPECT_EQ(copies[1].name(), "main/a/replica_1");
}

TEST(VariableCreation, DecidesWhatTrains) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  EXPECT_TRUE(Variable(0.f).trainable());
  EXPECT_FALSE(Variable(0.f, {.trainable = false}).trainable());
  EXPECT_FALSE(Variable(0.f, {.synchronization = kOnRead}).trainable());
  EXPECT_TRUE(Variable(0.f, {.trainable = true, .synchronization = kOnRead}).trainable());
}

TEST(VariableCreation, RefusesWhatMakesNoSense) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), central_strategy(2)};
  for (const auto& strategy : strategies) {
    const StrategyScope scope(*strategy);
    expect_error([] { Variable(0.f, {.synchronization = VariableSynchronization::None}); }, "None");
    expect_error(
        [] { Variable(0.f, {.synchronization = static_cast<VariableSynchronization>(9)}); },
        "number 9");
    expect_error([] { Variable(0.f, {.aggregation = static_cast<VariableAggregation>(9)}); },
                 "number 9");
    expect_error([] { Variable(0, {.name = "n", .aggregation = VariableAggregation::Mean}); },
                 "'n' is int32");
    Variable(0, {.aggregation = VariableAggregation::Sum});
  }
}

TEST(VariableCreation, RecordsNothingOnTapes) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  GradientTape tape;
  const Tensor x(2.f);
  tape.watch(x);
  const Variable v(Initializer([&] { return x * x; }));
  EXPECT_FALSE(tape.gradient(v.read_value(), x).defined());
}

TEST(VariableCreation, ColocatesWithAnother) {
  const auto strategy = mirrored_strategy(2);
  expect_error([&] { const auto beside = strategy->extended().colocate_vars_with(Variable(0.f)); },
               "", Code::FailedPrecondition);
  const Variable outside(0.f);
  const StrategyScope scope(*strategy);
  const Variable first(1.f);
  expect_error([&] { const auto beside = strategy->extended().colocate_vars_with(outside); }, "");
  const auto beside = strategy->extended().colocate_vars_with(first);
  const Variable second(2.f);
  EXPECT_EQ(internal::distributed(second)->copies()[1].device(), canonical_device("CPU:1"));
}

TEST(VariablePrinting, ListsTheCopies) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  std::ostringstream out;
  out << Variable(1.f);
  EXPECT_EQ(out.str(),
            "MirroredVariable:{\n"
            "  0: <Variable 'Variable:0' shape=() dtype=float32, value=1.0>,\n"
            "  1: <Variable 'Variable/replica_1:0' shape=() dtype=float32, value=1.0>\n"
            "}");
  EXPECT_EQ(Variable(1, {.name = "n", .synchronization = kOnRead}).to_string().substr(0, 20),
            "SyncOnReadVariable:{");
}

TEST(VariableGathering, GivesEveryCopy) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v({{1}, {2}});
  EXPECT_EQ(strategy->gather(v, 0).to_vector<int>(), (std::vector{1, 2, 1, 2}));
}

TEST(VariableDeepCopy, KeepsValuesDevicesAndAggregationAndIsIndependent) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  Variable v(0.f, {.name = "v", .aggregation = VariableAggregation::None});
  strategy->run([&] { v.assign(static_cast<float>(replica_id() + 1)); });
  Variable copy = v.deep_copy();
  v.assign(9.f);
  EXPECT_EQ(copy_values(copy), (std::vector<float>{1, 2}));
  EXPECT_EQ(copy.name(), "v");
  EXPECT_EQ(internal::distributed(copy)->copies()[1].device(), canonical_device("CPU:1"));
  copy.assign(4.f);
  EXPECT_EQ(copy_values(v), (std::vector<float>{9, 9}));
  EXPECT_TRUE(strategy->extended().variable_created_in_scope(copy));
}

}  // namespace
}  // namespace cohort
