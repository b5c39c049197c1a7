// Programs with a Trainer whose tasks are killed: one flag in the program, one for the command.

#include <gtest/gtest.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

// What stands behind a word at the beginning of some task's line.
std::string said(const std::string& output, const std::string& word) {
  const size_t at = output.find("] " + word + " ");
  const size_t chief = output.find("]  " + word + " ");  // names are filled up to one length
  const size_t from = std::min(at, chief);
  if (from == std::string::npos) return "no " + word + " in: " + output;
  return output.substr(from, output.find('\n', from) - from);
}

Launched train(const LaunchFolder& folder, const std::vector<std::string>& tasks,
               const std::string& strategy, const std::string& kill = {}) {
  std::vector<std::string> words = tasks;
  words.insert(words.end(), {"--max-restarts", "2", TRAINER_TASK, strategy, folder.path()});
  if (!kill.empty()) words.push_back(kill);
  return launch(words);
}

class KilledWorkers : public testing::TestWithParam<const char*> {};

TEST_P(KilledWorkers, EndWithTheUndisturbedResult) {
  const LaunchFolder calm, folder;
  const Launched undisturbed = train(calm, {"-n", "2"}, "workers");
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.output;
  const Launched run = train(folder, {"-n", "2"}, "workers", GetParam());
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/happened")) << run.output;
  EXPECT_EQ(said(run.output, "result"), said(undisturbed.output, "result")) << run.output;
}

// Within an epoch; the chief itself; at the end of an epoch.
INSTANTIATE_TEST_SUITE_P(Everywhere, KilledWorkers,
                         testing::Values("worker:1@9", "worker:0@9", "worker:1@12"));

class KilledServers : public testing::TestWithParam<const char*> {};

TEST_P(KilledServers, LoseNoStepAndRepeatNone) {
  const LaunchFolder folder;
  const Launched run = train(folder, {"--workers", "2", "--ps", "2", "--chief"}, "ps", GetParam());
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/happened")) << run.output;
  EXPECT_TRUE(said(run.output, "updates").ends_with("updates 36")) << run.output;
  EXPECT_TRUE(said(run.output, "loss").ends_with("loss smaller")) << run.output;
}

INSTANTIATE_TEST_SUITE_P(EveryRole, KilledServers,
                         testing::Values("worker:1@9", "ps:0@9", "chief:0@9"));

}  // namespace
}  // namespace cohort::test
