// One program whose strategy is chosen by the way it is started.

#include <gtest/gtest.h>

#include <regex>

#include "launch/launch.h"

namespace cohort::test {
namespace {

struct StrategyStart {
  std::string name;
  std::vector<std::string> words;  // of the command
  std::string strategy;            // how its text begins
  std::string task;                // which trains and says so
};

void PrintTo(const StrategyStart& start, std::ostream* out) { *out << start.name; }

class LaunchedStrategy : public testing::TestWithParam<StrategyStart> {};

TEST_P(LaunchedStrategy, TrainsTheProgram) {
  const LaunchDirectory directory;
  std::vector<std::string> words = GetParam().words;
  words.emplace_back(STRATEGY_TASK);
  const Launched run = launch(words);
  EXPECT_EQ(run.code, 0) << run.output;
  const std::regex expected("\\[" + GetParam().task + "\\] +trains with " + GetParam().strategy);
  EXPECT_TRUE(std::regex_search(run.output, expected)) << run.output;
  EXPECT_EQ(run.output.find("trains with"), run.output.rfind("trains with")) << run.output;
  EXPECT_TRUE(std::regex_search(run.output, std::regex("\\[" + GetParam().task + "\\] +is done")))
      << run.output;
  // A loaded machine may take seconds to start a task, for which the others then wait.
  const std::string warnings = std::regex_replace(
      run.output, std::regex(" W \\[[^\n\\]]*\\] \\[Connect\\] still trying"), "");
  EXPECT_FALSE(contains(warnings, " W [")) << run.output;
}

INSTANTIATE_TEST_SUITE_P(
    Named, LaunchedStrategy,
    testing::Values(
        StrategyStart{"OneDevice", {"--strategy", "one_device"}, "OneDeviceStrategy", "worker:0"},
        StrategyStart{"Mirrored", {"--strategy", "mirrored"}, "MirroredStrategy", "worker:0"},
        StrategyStart{"OneSimulatedGpu",
                      {"--strategy", "one_device", "--simulate-gpus", "1"},
                      "OneDeviceStrategy.*GPU:0",
                      "worker:0"},
        StrategyStart{"MirroredOnSimulatedGpus",
                      {"--strategy", "mirrored", "--simulate-gpus", "2"},
                      "MirroredStrategy.*GPU:1",
                      "worker:0"},
        StrategyStart{"CentralStorage",
                      {"--strategy", "central_storage", "-n", "1"},
                      "CentralStorageStrategy",
                      "worker:0"},
        StrategyStart{"MultiWorker",
                      {"--strategy", "multi_worker", "-n", "2"},
                      "MultiWorkerMirroredStrategy.*num_replicas_in_sync=2",
                      "worker:0"},
        StrategyStart{"ParameterServer",
                      {"--strategy", "parameter_server", "--workers", "2", "--ps", "1"},
                      "ParameterServerStrategy",
                      "chief:0"}),
    [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(
    ByTasks, LaunchedStrategy,
    testing::Values(StrategyStart{"One", {"-n", "1"}, "OneDeviceStrategy", "worker:0"},
                    StrategyStart{"Workers",
                                  {"-n", "2"},
                                  "MultiWorkerMirroredStrategy.*num_replicas_in_sync=2",
                                  "worker:0"},
                    StrategyStart{"Servers",
                                  {"--workers", "1", "--ps", "1", "--chief"},
                                  "ParameterServerStrategy",
                                  "chief:0"}),
    [](const auto& each) { return each.param.name; });

TEST(StrategyFromEnvironment, NamesWhatItDoesNotKnow) {
  const LaunchDirectory directory;
  const ScopedEnvironment named(ScopedEnvironment::Variables{{"COHORT_STRATEGY", "mirored"}});
  const Launched run = launch({"-n", "1", STRATEGY_TASK});
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_TRUE(contains(run.output, "COHORT_STRATEGY is 'mirored', which is not a strategy"))
      << run.output;
  EXPECT_TRUE(contains(run.output, "did you mean 'mirrored'?")) << run.output;
}

// Servers without a chief would wait forever.
TEST(StrategyFromEnvironment, RefusesServersWithoutAChief) {
  const LaunchDirectory directory;
  const Launched run = launch({"--workers", "1", "--ps", "1", STRATEGY_TASK});
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_TRUE(contains(run.output, "needs a chief")) << run.output;
}

TEST(StrategyFromEnvironment, LeavesAClusterAloneThatTheProgramHasShutDown) {
  const LaunchDirectory directory;
  const Launched run = launch({"--strategy", "parameter_server", "--workers", "1", "--ps", "1",
                               STRATEGY_TASK, "shut_down"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_FALSE(contains(run.output, " W [")) << run.output;
}

}  // namespace
}  // namespace cohort::test
