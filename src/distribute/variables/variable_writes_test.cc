// What a write does to a variable of a strategy: one table of all combinations.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "cohort/function.h"
#include "cohort/graph.h"
#include "support/expect_error.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

using internal::expect_error;
using internal::Write;

enum Kind { Mirrored, OnRead, Shared, AnyKind };
enum Where { Across, InReplica, InUpdate, AnyWhere };
// What is given to the write. Number, OneTensor: the same by all. Numbers, Tensors: r + 1 by
// replica r. PerReplicas, MirroredValues: a value with the components 1, 2, ...
enum Given { Number, OneTensor, Numbers, Tensors, PerReplicas, MirroredValues, AnyGiven };
// What the copies are changed by.
enum Effect { Each, All, Sum, Mean, First, Share, Refused };

constexpr int kAnyAggregation = -1;
constexpr int kNone = static_cast<int>(VariableAggregation::None);
constexpr int kSum = static_cast<int>(VariableAggregation::Sum);
constexpr int kMean = static_cast<int>(VariableAggregation::Mean);
constexpr int kFirst = static_cast<int>(VariableAggregation::OnlyFirstReplica);

enum Ops { AnyOp, AssignOnly, AddOrSub };

struct Rule {
  Kind kind;
  Where where;
  int aggregation;
  Ops ops;
  Given given;
  Effect effect;
};

// For several replicas; the first line that fits counts.
constexpr Rule kRules[] = {
    // Copies that are kept equal
    {Mirrored, Across, kAnyAggregation, AnyOp, PerReplicas, Refused},
    {Mirrored, Across, kAnyAggregation, AnyOp, MirroredValues, Each},
    {Mirrored, Across, kAnyAggregation, AnyOp, AnyGiven, All},
    {Mirrored, InReplica, kNone, AnyOp, PerReplicas, Refused},
    {Mirrored, InReplica, kNone, AnyOp, AnyGiven, Each},
    {Mirrored, InReplica, kSum, AnyOp, Number, Refused},
    {Mirrored, InReplica, kSum, AnyOp, Numbers, Refused},
    {Mirrored, InReplica, kSum, AnyOp, AnyGiven, Sum},
    {Mirrored, InReplica, kMean, AnyOp, AnyGiven, Mean},
    {Mirrored, InReplica, kFirst, AnyOp, AnyGiven, First},
    // Copies that go their own ways
    {OnRead, InReplica, kAnyAggregation, AnyOp, PerReplicas, Refused},
    {OnRead, InReplica, kAnyAggregation, AnyOp, AnyGiven, Each},
    {OnRead, Across, kNone, AnyOp, AnyGiven, Refused},
    {OnRead, Across, kAnyAggregation, AnyOp, PerReplicas, Refused},
    {OnRead, Across, kSum, AddOrSub, AnyGiven, Refused},
    {OnRead, Across, kSum, AssignOnly, AnyGiven, Share},
    {OnRead, Across, kAnyAggregation, AnyOp, MirroredValues, Each},
    {OnRead, Across, kAnyAggregation, AnyOp, AnyGiven, All},
    // One copy for all replicas
    {Shared, Across, kAnyAggregation, AnyOp, PerReplicas, Refused},
    {Shared, Across, kAnyAggregation, AnyOp, AnyGiven, All},
    {Shared, InReplica, kNone, AnyOp, AnyGiven, Refused},
    {Shared, InReplica, kSum, AnyOp, Number, Refused},
    {Shared, InReplica, kSum, AnyOp, Numbers, Refused},
    {Shared, InReplica, kSum, AnyOp, AnyGiven, Sum},
    {Shared, InReplica, kMean, AnyOp, AnyGiven, Mean},
    {Shared, InReplica, kFirst, AnyOp, AnyGiven, First},
    // One copy at a time
    {AnyKind, InUpdate, kAnyAggregation, AnyOp, AnyGiven, Each},
};
// For one replica: nothing to combine, but a sum that is read still has no place to add to.
constexpr Rule kRulesForOne[] = {
    {OnRead, Across, kNone, AnyOp, AnyGiven, Refused},
    {OnRead, Across, kSum, AddOrSub, AnyGiven, Refused},
    {AnyKind, AnyWhere, kAnyAggregation, AnyOp, AnyGiven, Each},
};

struct Case {
  Kind kind;
  Where where;
  VariableAggregation aggregation;
  Write write;
  Given given;
  int replicas;

  bool fits(const Rule& rule) const {
    return (rule.kind == AnyKind || rule.kind == kind) &&
           (rule.where == AnyWhere || rule.where == where) &&
           (rule.aggregation == kAnyAggregation ||
            rule.aggregation == static_cast<int>(aggregation)) &&
           (rule.ops == AnyOp || (rule.ops == AssignOnly) == (write == Write::Assign)) &&
           (rule.given == AnyGiven || rule.given == given);
  }
  std::string text() const {
    return fmt::format("kind {}, where {}, aggregation {}, write {}, given {}, replicas {}",
                       static_cast<int>(kind), static_cast<int>(where),
                       static_cast<int>(aggregation), static_cast<int>(write),
                       static_cast<int>(given), replicas);
  }
};

template <size_t n>
Effect lookup(const Rule (&rules)[n], const Case& c) {
  for (const Rule& rule : rules) {
    if (c.fits(rule)) return rule.effect;
  }
  ADD_FAILURE() << "no rule for " << c.text();
  return Refused;
}

Effect expected_effect(const Case& c) {
  return c.replicas == 1 ? lookup(kRulesForOne, c) : lookup(kRules, c);
}

constexpr float kStart = 100;
constexpr float kCommon = 8;

// What replica (or copy) r gives.
float given_by(const Case& c, int r) {
  const bool common = c.given == Number || c.given == OneTensor;
  return common ? kCommon : static_cast<float>(r + 1);
}

float combined(const Case& c, Effect effect, int copy) {
  std::vector<float> all;
  for (int r = 0; r < c.replicas; ++r) all.push_back(given_by(c, r));
  const float total = std::accumulate(all.begin(), all.end(), 0.f);
  switch (effect) {
    case Each:
      return all[copy];
    case Sum:
      return total;
    case Mean:
      return total / static_cast<float>(c.replicas);
    case Share:
      return all[copy] / static_cast<float>(c.replicas);
    default:
      return all[0];
  }
}

float written(Write write, float change) {
  if (write == Write::Assign) return change;
  return write == Write::AssignAdd ? kStart + change : kStart - change;
}

std::vector<float> expected_copies(const Case& c, size_t copies) {
  const Effect effect = expected_effect(c);
  std::vector<float> values;
  for (size_t i = 0; i < copies; ++i) {
    // The one copy of several replicas is updated once, as copy 0.
    values.push_back(
        effect == Refused ? kStart : written(c.write, combined(c, effect, static_cast<int>(i))));
  }
  return values;
}

template <typename Value>
Tensor do_write(Variable& variable, Write write, const Value& value) {
  if (write == Write::Assign) return variable.assign(value);
  return write == Write::AssignAdd ? variable.assign_add(value) : variable.assign_sub(value);
}

// The values that the case needs, made once for all replicas.
struct Values {
  explicit Values(int replicas) {
    std::vector<std::optional<Tensor>> own;
    std::vector<Gradient> parts;
    for (int r = 0; r < replicas; ++r) {
      own.emplace_back(Tensor::from<float>({static_cast<float>(r + 1)}, {}));
      parts.emplace_back(*own.back());
    }
    per_replica.emplace(own);
    mirrored.emplace(DistributedValue::Kind::Mirrored, parts);
  }
  Tensor common = Tensor::from<float>({kCommon}, {});
  std::optional<PerReplica<Tensor>> per_replica;
  std::optional<DistributedValue> mirrored;
};

Tensor write_as(const Case& c, const Values& values, Variable variable, int replica) {
  switch (c.given) {
    case Number:
      return do_write(variable, c.write, kCommon);
    case OneTensor:
      return do_write(variable, c.write, values.common);
    case Numbers:
      return do_write(variable, c.write, static_cast<float>(replica + 1));
    case Tensors:
      return do_write(variable, c.write, (*values.per_replica)[static_cast<size_t>(replica)]);
    case PerReplicas:
      return do_write(variable, c.write, *values.per_replica);
    default:
      return do_write(variable, c.write, *values.mirrored);
  }
}

void run_case(const Case& c, Strategy& strategy, const Values& values, const Variable& variable) {
  if (c.where == Across) {
    const StrategyScope scope(strategy);
    write_as(c, values, variable, 0);
  } else if (c.where == InReplica) {
    strategy.run([&] {
      return write_as(c, values, variable, get_replica_context()->replica_id_in_sync_group());
    });
  } else {
    const StrategyScope scope(strategy);
    int copy = 0;
    strategy.extended().update(
        variable, [&](const Variable&) { return write_as(c, values, variable, copy++); });
  }
}

// Whether the combination can be written down at all.
bool makes_sense(const Case& c) {
  if (c.where == Across) return c.given != Numbers && c.given != Tensors;
  return c.given != MirroredValues;
}

void check_case(const Case& c, Strategy& strategy) {
  SCOPED_TRACE(c.text());
  const Values values(c.replicas);
  const Variable variable = strategy.create([&] {
    return Variable(kStart, {.synchronization = c.kind == OnRead ? VariableSynchronization::OnRead
                                                                 : VariableSynchronization::OnWrite,
                             .aggregation = c.aggregation});
  });
  if (expected_effect(c) == Refused) {
    expect_error([&] { run_case(c, strategy, values, variable); }, "'Variable'",
                 Code::InvalidArgument);
  } else {
    run_case(c, strategy, values, variable);
  }
  const std::vector<float> copies = copy_values(variable);
  EXPECT_EQ(copies, expected_copies(c, copies.size()));
}

constexpr VariableAggregation kAggregations[] = {
    VariableAggregation::None, VariableAggregation::Sum, VariableAggregation::Mean,
    VariableAggregation::OnlyFirstReplica};
constexpr Write kWrites[] = {Write::Assign, Write::AssignAdd, Write::AssignSub};

void check_all_cases(Kind kind, int replicas, Strategy& strategy) {
  for (const Where where : {Across, InReplica, InUpdate}) {
    for (const VariableAggregation aggregation : kAggregations) {
      for (const Write write : kWrites) {
        for (int given = Number; given < AnyGiven; ++given) {
          const Case c{kind, where, aggregation, write, static_cast<Given>(given), replicas};
          if (makes_sense(c)) check_case(c, strategy);
        }
      }
    }
  }
}

TEST(VariableWrites, FollowTheTableForOneToFourReplicas) {
  for (int replicas = 1; replicas <= 4; ++replicas) {
    const auto mirrored = mirrored_strategy(replicas);
    check_all_cases(Mirrored, replicas, *mirrored);
    check_all_cases(OnRead, replicas, *mirrored);
    const auto central = central_strategy(replicas);
    check_all_cases(Shared, replicas, *central);
  }
}

struct Walk {
  VariableSynchronization synchronization;
  VariableAggregation aggregation;
  std::vector<float> assigned;
  std::vector<float> added;
};

std::vector<float> after(Strategy& strategy, const Walk& walk, Write write) {
  Variable v = strategy.create([&] {
    return Variable(kStart,
                    {.synchronization = walk.synchronization, .aggregation = walk.aggregation});
  });
  strategy.run([&] {
    const float x = static_cast<float>(get_replica_context()->replica_id_in_sync_group() + 1);
    return do_write(v, write, Tensor({x})[0]);
  });
  return copy_values(v);
}

TEST(VariableWrites, OfFourReplicasHaveTheNumbersOfTheWalkThrough) {
  const auto strategy = mirrored_strategy(4);
  using enum VariableAggregation;
  constexpr auto kOnWrite = VariableSynchronization::OnWrite;
  constexpr auto kOnRead = VariableSynchronization::OnRead;
  const Walk walks[] = {
      {kOnWrite, None, {1, 2, 3, 4}, {101, 102, 103, 104}},
      {kOnWrite, VariableAggregation::Sum, {10, 10, 10, 10}, {110, 110, 110, 110}},
      {kOnWrite, VariableAggregation::Mean, {2.5, 2.5, 2.5, 2.5}, {102.5, 102.5, 102.5, 102.5}},
      {kOnWrite, OnlyFirstReplica, {1, 1, 1, 1}, {101, 101, 101, 101}},
      {kOnRead, VariableAggregation::Sum, {1, 2, 3, 4}, {101, 102, 103, 104}},
      {kOnRead, None, {1, 2, 3, 4}, {101, 102, 103, 104}},
  };
  for (const Walk& walk : walks) {
    EXPECT_EQ(after(*strategy, walk, Write::Assign), walk.assigned);
    EXPECT_EQ(after(*strategy, walk, Write::AssignAdd), walk.added);
  }
}

TEST(VariableWrites, InTracedFunctionsDoWhatTheyDoAtOnce) {
  const auto strategy = mirrored_strategy(2);
  const auto x = strategy->distribute_values_from_function([](ValueContext context) {
    return Tensor({static_cast<float>(context.replica_id_in_sync_group + 1)})[0];
  });
  const std::pair<VariableAggregation, std::vector<float>> cases[] = {
      {VariableAggregation::None, {101, 102}},
      {VariableAggregation::Sum, {103, 103}},
      {VariableAggregation::Mean, {101.5, 101.5}},
      {VariableAggregation::OnlyFirstReplica, {101, 101}}};
  for (const auto& [aggregation, expected] : cases) {
    const auto make = [&, how = aggregation] {
      return strategy->create([&] { return Variable(kStart, {.aggregation = how}); });
    };
    Variable inside = make();
    strategy->run(function([&](const Tensor& own) { return inside.assign_add(own); }), x);
    EXPECT_EQ(copy_values(inside), expected);
    Variable around = make();
    function([&](const PerReplica<Tensor>& all) {
      return strategy->run([&](const Tensor& own) { return around.assign_add(own); }, all);
    })(x);
    EXPECT_EQ(copy_values(around), expected);
  }
}

TEST(VariableWrites, OfAValueWithPartsNameTheCallersLineInAGraph) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(1.f);
  const PerReplica<Tensor> parts({Tensor(2.f)});
  const std::vector<NodeInfo> before = graph.nodes();
  const int line = __LINE__ + 1;
  v.assign(parts);
  const std::vector<NodeInfo> after = graph.nodes();
  ASSERT_GT(after.size(), before.size());
  for (size_t i = before.size(); i < after.size(); ++i) EXPECT_EQ(after[i].site.line, line);
}

}  // namespace
}  // namespace cohort
