// Programs with a Trainer whose tasks are killed: one flag in the program, one for the command.

#include <gtest/gtest.h>

#include <fstream>

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
    saved = number_after(run.output(), "asked the training to end: saved after step ");
    EXPECT_GE(saved, 9) << run.output();
    EXPECT_EQ(text_of(directory.path() + "/backup/lock"), "") << "the run ended properly";
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
    EXPECT_EQ(number_after(run.output(), "asked the training to end: saved after step "), 6)
        << run.output();
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
  EXPECT_EQ(number_after(run.output(), "asked the training to end: saved after step "), 9)
      << run.output();
}

// Whether a signal waits for some thread of the process to take it.
bool has_pending_signal(const Process& process) {
  std::ifstream status("/proc/" + std::to_string(process.id()) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("ShdPnd:")) return line.find_first_not_of("ShdPn:\t 0") != line.npos;
  }
  return false;
}

// A step that does not end keeps a process from its end only so long.
TEST(TrainingAskedToEndTwice, EndsByTheSecondInterrupt) {
  const LaunchDirectory directory;
  Process run({TRAINER_TASK, directory.path(), "1000000", "hang"});
  ASSERT_TRUE(eventually([&] { return contains(run.output(), "made 9"); })) << run.output();
  run.send(SIGINT);
  ASSERT_TRUE(eventually([&] { return !has_pending_signal(run); })) << "two would become one";
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), -SIGINT) << run.output();
  EXPECT_FALSE(contains(run.output(), "asked the training to end")) << run.output();
}

TEST(TrainingAskedToEndTwice, EndsByATermination2sAfterTheFirst) {
  const LaunchDirectory directory;
  Process run({TRAINER_TASK, directory.path(), "1000000", "hang"});
  ASSERT_TRUE(eventually([&] { return contains(run.output(), "made 9"); })) << run.output();
  const auto begin = std::chrono::steady_clock::now();
  int code = -1000;
  ASSERT_TRUE(eventually([&] {
    run.send(SIGTERM);
    code = run.wait(std::chrono::milliseconds(20));
    return code != -1000;
  })) << run.output();
  EXPECT_EQ(code, -SIGTERM) << run.output();
  // Real time is the subject: 2 s, which the process counts in whole milliseconds. A busy machine
  // only makes it longer.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1999));
  EXPECT_FALSE(contains(run.output(), "asked the training to end")) << run.output();
}

// Callbacks would be called after 1,000 steps only.
TEST(TrainingAskedToEndTwice, IsSavedAfterTheStepHoweverRareCallbacksAre) {
  const LaunchDirectory directory;
  Process run({TRAINER_TASK, directory.path(), "1000000", "raise", "rare"});
  EXPECT_EQ(run.wait(), -SIGTERM) << run.output();
  EXPECT_EQ(number_after(run.output(), "asked the training to end: saved after step "), 9)
      << run.output();
}

// A launcher sends the signal to both workers.
TEST(TrainingInLockstepAskedToEnd, IsSavedHoweverRareCallbacksAre) {
  const LaunchDirectory directory;
  Process run(
      run_words({"-n", "2", "--grace", "60", TRAINER_TASK, directory.path(), "1", "endless"}));
  ASSERT_TRUE(eventually([&] { return contains(run.output(), "makes 9"); })) << run.output();
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(std::chrono::seconds(30)), 128 + SIGTERM) << run.output();
  EXPECT_GE(number_after(run.output(), "asked the training to end: saved after step "), 9)
      << run.output();
}

void send_to_task(const LaunchDirectory& directory, const std::string& task, int signal) {
  std::string process;
  ASSERT_TRUE(eventually([&] {
    process = text_of(directory.path() + "/process_of_" + task);
    return !process.empty();
  })) << task
      << " has not begun";
  kill(std::stoi(process), signal);
}

class TrainingOfWhichOneWorkerIsAskedToEnd : public testing::TestWithParam<const char*> {};

// No other backup is made, and one that workers make after different steps is an error.
TEST_P(TrainingOfWhichOneWorkerIsAskedToEnd, IsSavedOnAllAndGoesOnFromThere) {
  const LaunchDirectory directory;
  const std::vector<std::string> words = run_words(
      {"-n", "2", "--grace", "60", TRAINER_TASK, directory.path(), "1", "endless", GetParam()});
  {
    Process run(words);
    ASSERT_TRUE(eventually([&] { return contains(run.output(), "makes 9"); })) << run.output();
    send_to_task(directory, "worker:1", SIGTERM);
    EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.output();
  }
  Process next(words);
  ASSERT_TRUE(eventually([&] { return contains(next.output(), "begins "); })) << next.output();
  EXPECT_GE(number_after(next.output(), "begins "), 9) << next.output();
  next.send(SIGTERM);
  EXPECT_EQ(next.wait(), 128 + SIGTERM) << next.output();
}

INSTANTIATE_TEST_SUITE_P(BetweenCallbacksAndWithThem, TrainingOfWhichOneWorkerIsAskedToEnd,
                         testing::Values("uncalled", "called"));

size_t count_in(const std::string& output, const std::string& text) {
  size_t count = 0;
  for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1)) {
    ++count;
  }
  return count;
}

// The servers get the signal first, as when a manager of jobs ends all tasks at once.
TEST(TrainingWithServersAskedToEnd, IsSavedWhenAllTasksGetTheSignal) {
  const LaunchDirectory directory;
  const ScopedEnvironment log(ScopedEnvironment::Variables{{"COHORT_LOG", "info"}});
  const auto words = [&](const std::string& epochs) {
    return run_words(
        {"--workers", "2", "--ps", "1", "--chief", TRAINER_TASK, directory.path(), epochs});
  };
  int64_t saved = -1;
  {
    Process run(words("1000000"));
    ASSERT_TRUE(eventually([&] { return contains(run.output(), "made 9"); })) << run.output();
    for (const char* task : {"ps:0", "worker:0", "worker:1"}) {
      send_to_task(directory, task, SIGTERM);
    }
    // A worker that the chief has not found yet ends at once.
    ASSERT_TRUE(eventually([&] {
      return count_in(run.output(), "SIGTERM came while clients have sessions") >= 2;
    })) << run.output();
    send_to_task(directory, "chief:0", SIGTERM);
    EXPECT_NE(run.wait(std::chrono::seconds(30)), 0) << run.output();
    saved = number_after(run.output(), "asked the training to end: saved after step ");
    EXPECT_GE(saved, 9) << run.output();
  }
  Process next(words("1"));
  EXPECT_EQ(next.wait(), 0) << next.output();
  EXPECT_EQ(number_after(next.output(), "begins "), saved) << next.output();
}

// The launcher asks the chief to end once another task has died.
TEST(TrainingWithServersAskedToEnd, EndsAtOnceWhenTheServersAreGone) {
  const LaunchDirectory directory;
  Process run(run_words({"--workers", "2", "--ps", "1", "--chief", "--grace", "50", TRAINER_TASK,
                         directory.path(), "1000000"}));
  ASSERT_TRUE(eventually([&] { return contains(run.output(), "made 9"); })) << run.output();
  for (const char* task : {"ps:0", "worker:0", "worker:1"}) send_to_task(directory, task, SIGKILL);
  EXPECT_EQ(run.wait(std::chrono::seconds(30)), 128 + SIGKILL) << run.output();
  EXPECT_TRUE(contains(run.output(), "the steps since the last backup, which was made after step"))
      << run.output();
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
