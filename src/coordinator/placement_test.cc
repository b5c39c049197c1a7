// Which variables go to which parameter server, in how many parts.

#include <gtest/gtest.h>

#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

std::string ps(int task) {
  return "/job:ps/replica:0/task:" + std::to_string(task) + "/device:CPU:0";
}

std::vector<std::string> devices_of(const ShardedVariable& variable) {
  std::vector<std::string> devices;
  for (const Variable& shard : variable) devices.push_back(shard.device());
  return devices;
}

// Opens a device scope for variables called "pinned".
VariableCreator pin_to(const std::string& where) {
  return [where](const NextCreator& next, const VariableRequest& request) {
    if (request.options.name != "pinned") return next(request);
    const auto there = device(where);
    return next(request);
  };
}

TEST(Placement, IsACreatorsThatWasThereBeforeTheScope) {
  test::CoordinatedCluster here(2, 1);
  const VariableCreatorScope outside(pin_to("/job:ps/task:1"));
  const auto scope = here.strategy.scope();
  EXPECT_EQ(Variable(1.f, {.name = "pinned"}).device(), ps(1));
  EXPECT_EQ(Variable(1.f).device(), ps(1));  // the first one counts
  EXPECT_EQ(Variable(1.f).device(), ps(0));
}

TEST(Placement, IsNotACreatorsInsideOfTheScope) {
  test::CoordinatedCluster here(2, 1);
  const auto scope = here.strategy.scope();
  const VariableCreatorScope inside(pin_to("/job:ps/task:1"));
  EXPECT_EQ(Variable(1.f, {.name = "pinned"}).device(), ps(0));
  EXPECT_EQ(Variable(1.f).device(), ps(1));
}

TEST(Placement, IsHereOutsideOfTheScope) {
  test::CoordinatedCluster here(1, 1);
  const Variable mine(1.f);
  EXPECT_EQ(mine.device().find("/job:ps"), std::string::npos) << mine.device();
  EXPECT_FALSE(here.strategy.extended().variable_created_in_scope(mine));
  const Variable theirs = here.strategy.create([] { return Variable(1.f); });
  EXPECT_TRUE(here.strategy.extended().variable_created_in_scope(theirs));
}

TEST(Placement, CountsEveryShard) {
  test::CoordinatedCluster here(2, 1, {.variable_partitioner = FixedShardsPartitioner(3)});
  const auto scope = here.strategy.scope();
  EXPECT_EQ(devices_of(ShardedVariable(Variable(zeros({6})))),
            (std::vector<std::string>{ps(0), ps(1), ps(0)}));
  EXPECT_EQ(Variable(1.f).device(), ps(1));
  const Variable anchor(zeros({2}), {.name = "anchor"});
  const auto beside =
      here.strategy.extended().colocate_vars_with(ShardedVariable(anchor).variables()[1]);
  EXPECT_FALSE(ShardedVariable::is_sharded(Variable(zeros({6}))));  // is not cut
}

TEST(Partitioning, IsAskedForVariablesThatHaveRows) {
  std::vector<std::string> asked;
  test::CoordinatedCluster here(
      1, 1, {.variable_partitioner = [&](const Shape& shape, DType dtype, int axis) {
        asked.push_back(shape.to_string() + " " + to_string(dtype) + " " + std::to_string(axis));
        return std::vector<int64_t>(static_cast<size_t>(shape.rank()), 1);
      }});
  const Variable outside(zeros({7}));
  const auto scope = here.strategy.scope();
  const Variable scalar(1.f), vector(zeros({3})), matrix(zeros({4, 2}, kInt64));
  {
    const auto beside = here.strategy.extended().colocate_vars_with(vector);
    const Variable together(zeros({5}));
  }
  EXPECT_EQ(asked, (std::vector<std::string>{"(3,) float32 0", "(4, 2) int64 0"}));
  EXPECT_FALSE(ShardedVariable::is_sharded(vector));
}

TEST(Partitioning, GivesNoMorePartsThanRows) {
  test::CoordinatedCluster here(
      2, 1, {.variable_partitioner = [](const Shape&, DType, int) -> std::vector<int64_t> {
        return {5};
      }});
  const auto scope = here.strategy.scope();
  EXPECT_EQ(ShardedVariable(Variable(zeros({3}))).variables().size(), 3u);
  const Variable row({7.f}, {.name = "row"});
  const ShardedVariable one(row);
  EXPECT_EQ(one.variables().size(), 1u);
  EXPECT_EQ(one.variables()[0].name(), "row/part_0");
  EXPECT_EQ(row.read_value().to_vector<float>(), (std::vector<float>{7}));
}

TEST(Partitioning, MustCutRowsAlone) {
  using Parts = std::vector<int64_t>;
  for (const Parts& wrong :
       {Parts{}, Parts{2}, Parts{0, 1}, Parts{-1, 1}, Parts{1, 2}, Parts{2, 1, 1}}) {
    test::CoordinatedCluster here(
        1, 1, {.variable_partitioner = [&](const Shape&, DType, int) { return wrong; }});
    EXPECT_ERROR(Code::InvalidArgument, "variable 'table'", here.strategy.create([] {
      return Variable(zeros({4, 4}), {.name = "table"});
    }));
  }
}

TEST(Partitioning, NeedsAnInitialValue) {
  test::CoordinatedCluster here(1, 1, {.variable_partitioner = FixedShardsPartitioner(2)});
  EXPECT_ERROR(Code::InvalidArgument, "",
               here.strategy.create([] { return Variable(Initializer(), {.shape = {4}}); }));
}

TEST(Plan, TellsWhatIsWhereAndWhatTasksNeed) {
  test::CoordinatedCluster here(2, 2, {.variable_partitioner = FixedShardsPartitioner(2)});
  const auto scope = here.strategy.scope();
  const Variable table(zeros({4, 2}), {.name = "table"});
  const Variable count(int64_t{0}, {.name = "count", .trainable = false});
  const ParameterServerPlan plan = here.strategy.plan();
  ASSERT_EQ(plan.variables.size(), 3u);
  EXPECT_EQ(plan.variables[1].name, "table/part_1");
  EXPECT_EQ(plan.variables[1].device, ps(1));
  EXPECT_EQ(plan.variables[1].bytes, 16);
  EXPECT_EQ(plan.bytes_per_ps, (std::vector<int64_t>{24, 16}));
  EXPECT_EQ(plan.bytes_per_step, 64);  // read and sent, of what is trained
  std::vector<std::string> needs;
  for (const TaskMemory& one : plan.memory_per_task) {
    needs.push_back(one.task + " " + std::to_string(one.bytes));
  }
  EXPECT_EQ(needs, (std::vector<std::string>{
                       "/job:ps/replica:0/task:0 24", "/job:ps/replica:0/task:1 16",
                       "/job:worker/replica:0/task:0 64", "/job:worker/replica:0/task:1 64"}));
  EXPECT_NE(plan.to_string().find("/job:worker/replica:0/task:1 needs 64 bytes"), std::string::npos)
      << plan;
}

TEST(RunAndReduce, WarnOutsideOfScheduledFunctionsAlone) {
  test::CoordinatedCluster here(1, 1);
  ClusterCoordinator coordinator(here.strategy);
  const auto step = [&] {
    const auto values = here.strategy.run([] { return Tensor(3.f); });
    return here.strategy.reduce(ReduceOp::Sum, values) +
           here.strategy.reduce(ReduceOp::Mean, Tensor(4.f));
  };
  EXPECT_ERROR(Code::InvalidArgument, "",  // the calls below warn after it
               coordinator.schedule([](Tensor x) { return matmul(x, x); }, ones({2, 3})));
  testing::internal::CaptureStderr();
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(step)).to<float>(), 7);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("outside a scheduled"), std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_EQ(step().to<float>(), 7);
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_NE(warnings.find("run() was called outside a scheduled"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("reduce() was called outside a scheduled"), std::string::npos)
      << warnings;
}

TEST(RunAndReduce, WarnOnceForEachCall) {
  test::CoordinatedCluster here(1, 1);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20; ++i) {
    here.strategy.run([] { return Tensor(3.f); });
    (void)here.strategy.reduce(ReduceOp::Mean, Tensor(4.f));
  }
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 2) << warnings;
}

TEST(Placement, OnAServerThatIsNotThereIsRefused) {
  test::CoordinatedCluster here(1, 1);
  const VariableCreatorScope outside(pin_to("/job:ps/task:9"));
  const auto scope = here.strategy.scope();
  EXPECT_ERROR(Code::InvalidArgument, "/job:ps/replica:0/task:9",
               Variable(1.f, {.name = "pinned"}));
}

}  // namespace
}  // namespace cohort
