// Uses of variables that several workers must make alike.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "distribute/variables/distributed_variable.h"
#include "support/local_workers.h"

namespace cohort {
namespace {

using test::expect_on_all;
using test::run_workers;
using Use = std::function<void(Variable&)>;

const VariableOptions kMean{.name = "v", .aggregation = VariableAggregation::Mean};
const VariableOptions kOnRead{.synchronization = VariableSynchronization::OnRead,
                              .aggregation = VariableAggregation::Sum};

IndexedSlices one_row() { return {Tensor({3.f}), Tensor({int64_t{0}}), {1}}; }

// Each worker uses another one of two variables, as `use` says.
void expect_told_apart(const VariableOptions& options,
                       const std::function<void(Strategy&, Variable&)>& use) {
  const auto statuses = run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    std::vector<Variable> variables{Variable({1.f}, options), Variable({1.f}, options)};
    use(strategy, variables[static_cast<size_t>(strategy.worker_id())]);
  });
  expect_on_all(statuses, {"(number 0)", "(number 1)"});
}

TEST(MultiWorkerWrites, OfVariablesWithOneNameAreToldApart) {
  const Use writes[] = {[](Variable& v) { v.assign_add(ones({1})); },
                        [](Variable& v) { v.scatter_add(one_row()); }};
  for (const Use& write : writes) {
    expect_told_apart(kMean, [&](Strategy&, Variable& v) { write(v); });
    expect_told_apart(kMean,
                      [&](Strategy& strategy, Variable& v) { strategy.run([&] { write(v); }); });
  }
}

TEST(MultiWorkerReads, OfVariablesWithOneNameAreToldApart) {
  expect_told_apart(kOnRead, [](Strategy&, Variable& v) { v.read_value(); });
  expect_told_apart(kOnRead, [](Strategy& strategy, Variable& v) {
    strategy.run([&] {
      const VariableSyncOnReadScope together;
      return v + 1.f;
    });
  });
}

// A copy that only one worker makes changes nothing for the variables that come after it.
TEST(MultiWorkerWrites, OfAVariableThatOneWorkerCopiedAreTheSame) {
  test::on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable first({1.f}, kMean);
    if (strategy.worker_id() == 0) first.deep_copy();
    Variable copy = first.deep_copy();
    Variable second({1.f}, kMean);
    copy.assign(ones({1}) * 3.f);
    second.assign(ones({1}) * 4.f);
    strategy.run([&] {
      copy.assign_add(ones({1}));
      second.assign_add(ones({1}));
    });
    EXPECT_EQ(copy.read_value().to_vector<float>(), (std::vector<float>{4}));
    EXPECT_EQ(second.read_value().to_vector<float>(), (std::vector<float>{5}));
  });
}

TEST(MultiWorkerWrites, OfDifferentKindsNameBoth) {
  const auto statuses = [&](const Use& first, const Use& other) {
    return run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      Variable v({1.f}, kMean);
      strategy.run([&] { strategy.worker_id() == 0 ? first(v) : other(v); });
    });
  };
  expect_on_all(statuses([](Variable& v) { v.assign(ones({1})); },
                         [](Variable& v) { v.assign_add(ones({1})); }),
                {"assign of variable 'v'", "assign_add of variable 'v'"});
  expect_on_all(statuses([](Variable& v) { v.scatter_add(one_row()); },
                         [](Variable& v) { v.scatter_mul(one_row()); }),
                {"scatter_add of variable 'v'", "scatter_mul of variable 'v'"});
}

// The other worker may see the two runs in another order.
TEST(MultiWorkerWrites, AreRefusedWhileAnotherRunWrites) {
  using Run = std::function<void(Strategy&, const std::function<void()>&)>;
  const Run forms[] = {
      [](Strategy& strategy, const auto& write) { strategy.run(write); },
      [](Strategy& strategy, const auto& write) { strategy.run(function(write)); },
      [](Strategy& strategy, const auto& write) { function([&] { strategy.run(write); })(); }};
  for (const Run& run : forms) {
    const auto statuses = run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      Variable v(1.f, kMean);
      const int another = 0;
      internal::distributed(v)->writing_all().begin_alone(&another, 1);
      run(strategy, [&] { v.assign(Tensor(2.f)); });
    });
    expect_on_all(statuses, {"two runs of one strategy"});
  }
}

}  // namespace
}  // namespace cohort
