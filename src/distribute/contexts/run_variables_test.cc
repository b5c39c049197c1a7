#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "distribute/contexts/replica_threads.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

class RunVariables : public ::testing::Test {
 protected:
  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
};

TEST_F(RunVariables, PassesVariablesWhole) {
  const Variable variable = strategy_.create([] { return Variable(1.f); });
  const auto given = strategy_.run([](const Variable& whole) { return whole; }, variable);
  EXPECT_TRUE(given.collapsed());
  EXPECT_TRUE(internal::same_variable(given.value(), variable));
}

TEST_F(RunVariables, TheCopiesOfAVariableAreReturnedAsTheVariable) {
  const Variable variable = strategy_.create([] { return Variable(1.f); });
  const std::vector<Variable> copies = strategy_.local_results(variable);
  const auto own = [&] { return copies[static_cast<size_t>(replica_id())]; };
  EXPECT_TRUE(internal::same_variable(strategy_.run(own).value(), variable));
  const auto listed = strategy_.run([&] { return std::vector{own()}; });
  EXPECT_TRUE(internal::same_variable(listed.value()[0], variable));
  const auto crossed = strategy_.run([&] { return copies[static_cast<size_t>(1 - replica_id())]; });
  EXPECT_FALSE(crossed.collapsed());
}

TEST_F(RunVariables, VariablesMadeInsideAppearOnce) {
  const auto made = strategy_.run([] {
    const Variable a(1.f, {.name = "w_" + std::to_string(replica_id())});
    const Variable b(2.f, {.name = "w"});
    return std::vector<Variable>{a, b};
  });
  EXPECT_TRUE(made.collapsed());
  EXPECT_EQ(made[1].at(0).name(), "w_0");
  EXPECT_FALSE(internal::same_variable(made[0].at(0), made[0].at(1)));
  EXPECT_EQ(made[1].at(1).read_value().to<float>(), 2.f);
}

TEST_F(RunVariables, VariablesThatAMergeMakesAreNotTheReplicas) {
  std::vector<Variable> merged;
  const auto made = strategy_.run([&] {
    get_replica_context()->merge_call([&](Strategy&) { merged.emplace_back(7.f); });
    const Variable own(1.f);
    return own;
  });
  EXPECT_TRUE(made.collapsed());
  EXPECT_EQ(made[1].read_value().to<float>(), 1.f);
  EXPECT_EQ(merged.at(0).read_value().to<float>(), 7.f);
  EXPECT_TRUE(strategy_.extended().variable_created_in_scope(merged[0]));
}

TEST_F(RunVariables, VariablesOfARunInAMergeAreThatRuns) {
  const auto made = strategy_.run([&] {
    get_replica_context()->merge_call([](Strategy& s) {
      const auto inner = s.run([] { return Variable(5.f); });
      EXPECT_TRUE(inner.collapsed());
    });
    return Variable(1.f);
  });
  EXPECT_TRUE(made.collapsed());
  EXPECT_EQ(made[1].read_value().to<float>(), 1.f);
}

TEST_F(RunVariables, TheCallersCreatorsSeeVariablesMadeInside) {
  std::atomic<int> asked{0};
  const VariableCreatorScope counting([&](const NextCreator& next, const VariableRequest& request) {
    ++asked;
    return next(request);
  });
  strategy_.run([] { Variable(1.f); });
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 2);  // one for each copy at most, and none for the other replica's request
}

TEST_F(RunVariables, VariablesThatReplicaZeroDoesNotMakeAreAnError) {
  const auto never = [] {
    if (replica_id() == 1) Variable(1.f, {.name = "extra"});
  };
  EXPECT_ERROR(Code::FailedPrecondition, "'extra', which replica 0 does not make",
               strategy_.run(never));
  const auto waits = [] {
    if (replica_id() == 1) Variable(1.f, {.name = "extra"});
    get_replica_context()->merge_call([](Strategy&) {});
  };
  EXPECT_ERROR(Code::FailedPrecondition, "'extra', which replica 0 does not make",
               strategy_.run(waits));
  const auto both = strategy_.run([] { return Variable(1.f, {.name = "extra"}); });
  EXPECT_TRUE(both.collapsed());
}

TEST_F(RunVariables, TheInitialValueOfAVariableMadeInsideIsComputedOnce) {
  std::atomic<int> calls{0};
  strategy_.run([&] {
    Variable([&] {
      ++calls;
      return Tensor({1.f});
    });
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(RunVariables, VariablesMustHaveOneShapeAndDtype) {
  const auto shapes = [] { Variable(replica_id() == 0 ? Tensor({1.f}) : Tensor({1.f, 2.f})); };
  EXPECT_ERROR(Code::InvalidArgument, "replica 1 makes variable 'Variable' as float32 (2,)",
               strategy_.run(shapes));
  const auto dtypes = [] { Variable(replica_id() == 0 ? Tensor({1.f}) : Tensor({1})); };
  EXPECT_ERROR(Code::InvalidArgument, "as int32", strategy_.run(dtypes));
}

std::string log_of_runs(Strategy& strategy, int runs, const std::function<void()>& step) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < runs; ++i) strategy.run(step);
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(RunVariables, ThatEachStepMakesAndLosesAreLoggedOnce) {
  const auto lose = [] { Variable(float(replica_id()), {.name = "forgotten"}).assign_add(1.f); };
  EXPECT_EQ(log_of_runs(strategy_, 1, lose), "");
  const std::string said = log_of_runs(strategy_, 3, lose);
  const size_t first = said.find("a step makes variable 'forgotten' in each run()");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("a step makes", first + 1), std::string::npos) << said;
}

TEST_F(RunVariables, ThatTheProgramKeepsAreNotLogged) {
  std::vector<Variable> kept;
  const auto keep = [&] {
    const Variable made(1.f);
    if (replica_id() == 0) kept.push_back(made);
  };
  EXPECT_EQ(log_of_runs(strategy_, 3, keep), "");
  const nn::Dense layer(1);
  EXPECT_EQ(log_of_runs(strategy_, 3, [&] { layer(ones({1, 2})); }), "");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) kept.push_back(strategy_.run([] { return Variable(1.f); }).value());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(VariableNames, LoseWhatTellsReplicasApart) {
  for (const auto& [name, canonical] : {std::pair{"", "Variable"},
                                        {"w", "w"},
                                        {"block_3/w_1", "block/w"},
                                        {"block_3", "block"},
                                        {"a_12/b", "a_12/b"},
                                        {"a_1b", "a_1b"},
                                        {"_1", ""},
                                        {"a_1_2", "a_1"},
                                        {"a_/b_", "a_/b_"}}) {
    EXPECT_EQ(internal::canonical_variable_name(name), canonical) << name;
  }
}

// Which replica comes to a layer first is a matter of chance, and some find it made.
TEST(LayersOfReplicas, AreMadeOnceByTheFirstCall) {
  MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2", "CPU:3"});
  const auto shapes_of_layers = [&](bool traced) {
    const nn::Sequential model{nn::Conv2d(2, 1), nn::BatchNorm(), nn::Conv2d(3, 1), nn::BatchNorm(),
                               nn::Flatten(),    nn::Dense(4),    nn::Dense(2)};
    const auto step = [&](const Tensor& x) { return strategy.run([&] { return model(x); }); };
    const auto traced_step = function(step);
    for (int i = 0; i < 2; ++i) traced ? traced_step(ones({2, 1, 2, 2})) : step(ones({2, 1, 2, 2}));
    std::string shapes;
    for (const Variable& variable : model.variables()) {
      EXPECT_EQ(strategy.local_results(variable).size(), 4u);
      shapes += variable.shape().to_string();
    }
    return shapes;
  };
  const std::string expected =
      "(2, 1, 1, 1)(2,)(2,)(2,)(2,)(2,)(3, 2, 1, 1)(3,)(3,)(3,)(3,)(3,)(12, 4)(4,)(4, 2)(2,)";
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(shapes_of_layers(false), expected);
    EXPECT_EQ(shapes_of_layers(true), expected);
  }
}

}  // namespace
}  // namespace cohort
