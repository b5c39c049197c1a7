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

Launched train(const LaunchDirectory& directory, const std::vector<std::string>& tasks,
               const std::string& kill = {}) {
  std::vector<std::string> words = tasks;
  words.insert(words.end(), {"--max-restarts", "2", TRAINER_TASK, directory.path()});
  if (!kill.empty()) words.push_back(kill);
  return launch(words);
}

class KilledWorkers : public testing::TestWithParam<const char*> {};

TEST_P(KilledWorkers, EndWithTheUndisturbedResult) {
  const LaunchDirectory calm, directory;
  const Launched undisturbed = train(calm, {"-n", "2"});
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.output;
  const Launched run = train(directory, {"-n", "2"}, GetParam());
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/happened")) << run.output;
  EXPECT_EQ(said(run.output, "result"), said(undisturbed.output, "result")) << run.output;
}

// Within an epoch; the chief itself; at the end of an epoch.
INSTANTIATE_TEST_SUITE_P(Everywhere, KilledWorkers,
                         testing::Values("worker:1@9", "worker:0@9", "worker:1@12"));

class KilledServers : public testing::TestWithParam<const char*> {};

TEST_P(KilledServers, LoseNoStepAndRepeatNone) {
  const LaunchDirectory directory;
  const Launched run = train(directory, {"--workers", "2", "--ps", "2", "--chief"}, GetParam());
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/happened")) << run.output;
  EXPECT_TRUE(said(run.output, "updates").ends_with("updates 36")) << run.output;
  EXPECT_TRUE(said(run.output, "loss").ends_with("loss smaller")) << run.output;
}

INSTANTIATE_TEST_SUITE_P(EveryRole, KilledServers,
                         testing::Values("worker:1@9", "ps:0@9", "chief:0@9"));

// The number after a text that the output contains; -1 without the text.
int64_t number_after(const std::string& output, const std::string& text) {
  const size_t at = output.find(text);
  return at == std::string::npos ? -1 : std::stoll(output.substr(at + text.size()));
}

struct Tasks {
  std::string name;
  std::vector<std::string> words;  // of the command; none: a process without a launcher
};

class TrainingAskedToEnd : public testing::TestWithParam<std::tuple<Tasks, int>> {
 protected:
  std::vector<std::string> words(const std::string& epochs,
                                 const std::vector<std::string>& more = {}) const {
    const Tasks& tasks = std::get<0>(GetParam());
    std::vector<std::string> all = tasks.words;
    all.insert(all.end(), {TRAINER_TASK, directory.path(), epochs});
    all.insert(all.end(), more.begin(), more.end());
    return tasks.words.empty() ? all : run_words(all);
  }
  int code_of_end() const {
    const auto& [tasks, signal] = GetParam();
    return tasks.words.empty() ? -signal : 128 + signal;
  }
  const LaunchDirectory directory;
};

TEST_P(TrainingAskedToEnd, IsSavedAndGoesOnFromThere) {
  int64_t saved = -1;
  {
    Process run(words("1000000"));
    ASSERT_TRUE(eventually([&] { return contains(run.output(), "made 9"); })) << run.output();
    run.send(std::get<1>(GetParam()));
    EXPECT_EQ(run.wait(), code_of_end()) << run.output();
    saved = number_after(run.output(), "asked to end: saved after step ");
    EXPECT_GE(saved, 9) << run.output();
  }
  Process next(words("1"));  // fewer epochs than were made: it ends after its beginning
  EXPECT_EQ(next.wait(), 0) << next.output();
  EXPECT_EQ(number_after(next.output(), "begins "), saved) << next.output();
}

// The validation alone would take hours.
TEST_P(TrainingAskedToEnd, EndsDuringTheValidationToo) {
  {
    Process run(words("1000000", {"validate_long"}));
    ASSERT_TRUE(eventually([&] { return contains(run.output(), "validates"); })) << run.output();
    run.send(std::get<1>(GetParam()));
    EXPECT_EQ(run.wait(std::chrono::seconds(20)), code_of_end()) << run.output();
    EXPECT_EQ(number_after(run.output(), "asked to end: saved after step "), 6) << run.output();
  }
  Process next(words("1", {"validate"}));
  EXPECT_EQ(next.wait(), 0) << next.output();
  EXPECT_EQ(number_after(next.output(), "begins "), 6) << next.output();
  EXPECT_EQ(number_after(next.output(), "updates "), 6) << next.output();
  EXPECT_TRUE(contains(next.output(), "validates")) << next.output();
}

// A launcher and the manager of a service each send SIGTERM.
TEST(TrainingAskedToEndTwice, IsSavedAllTheSame) {
  const LaunchDirectory directory;
  Process run({TRAINER_TASK, directory.path(), "1000000", "raise"});
  EXPECT_EQ(run.wait(), -SIGTERM) << run.output();
  EXPECT_EQ(number_after(run.output(), "asked to end: saved after step "), 9) << run.output();
}

// A step that does not end keeps a process from its end only so long.
TEST(TrainingAskedToEndTwice, EndsAtOnceIfTheSecondSignalInsists) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const LaunchDirectory directory;
    Process run({TRAINER_TASK, directory.path(), "1000000", "hang"});
    ASSERT_TRUE(eventually([&] { return contains(run.output(), "made 9"); })) << run.output();
    const auto begin = std::chrono::steady_clock::now();
    int code = -1000;
    ASSERT_TRUE(eventually([&] {
      run.send(signal);
      code = run.wait(std::chrono::milliseconds(20));
      return code != -1000;
    })) << run.output();
    EXPECT_EQ(code, -signal) << run.output();
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(took > std::chrono::milliseconds(1900), signal == SIGTERM);
    EXPECT_FALSE(contains(run.output(), "asked to end")) << run.output();
  }
}

// Callbacks would be called after 1,000 steps only.
TEST(TrainingAskedToEndTwice, IsSavedAfterTheStepHoweverRareCallbacksAre) {
  const LaunchDirectory directory;
  Process run({TRAINER_TASK, directory.path(), "1000000", "raise", "rare"});
  EXPECT_EQ(run.wait(), -SIGTERM) << run.output();
  EXPECT_EQ(number_after(run.output(), "asked to end: saved after step "), 9) << run.output();
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, TrainingAskedToEnd,
    testing::Combine(testing::Values(Tasks{"alone", {}}, Tasks{"workers", {"-n", "2"}},
                                     Tasks{"ps", {"--workers", "2", "--ps", "1", "--chief"}}),
                     testing::Values(SIGINT, SIGTERM)),
    [](const auto& each) {
      return std::get<0>(each.param).name + (std::get<1>(each.param) == SIGINT ? "Int" : "Term");
    });

}  // namespace
}  // namespace cohort::test
