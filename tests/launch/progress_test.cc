// How far a training is: on a terminal, in other output, and for `cohort status`.

#include <gtest/gtest.h>

#include <chrono>
#include <regex>
#include <set>

#include "launch/launch.h"
#include "support/terminal.h"

namespace cohort::test {
namespace {

// Files that one test uses, and the words of a training that goes on until end() was called.
class EndlessTraining {
 public:
  const LaunchDirectory& directory() const { return directory_; }
  std::vector<std::string> words(std::vector<std::string> tasks, bool quiet = false) const {
    tasks.emplace_back(STRATEGY_TASK);
    if (quiet) tasks.emplace_back("quiet");
    tasks.push_back(file_);
    return run_words(tasks);
  }
  void end() const { std::ofstream(file_) << 1; }

 private:
  const LaunchDirectory directory_;
  const std::string file_ = directory_.path() + "/end";
};

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

constexpr char kRow[] =
    R"(^\[worker:0\] epoch 1/2 \[ {20}\] step [0-9]+  loss [^ ]+  [0-9.]+ h left)";

// Of several rows: the tasks' lines, and below them the row, once.
bool has_row_below_lines(const std::vector<std::string>& rows) {
  const auto is_row = [](const std::string& row) { return matches(row, kRow); };
  const auto is_line = [](const std::string& row) { return matches(row, "^.worker:0. made "); };
  return !rows.empty() && is_row(rows.back()) &&
         std::count_if(rows.begin(), rows.end(), is_row) == 1 &&
         std::count_if(rows.begin(), rows.end(), is_line) >= 2;
}

TEST(Progress, IsOneLiveRowBelowTheLinesOnATerminal) {
  const EndlessTraining training;
  const ScopedEnvironment kind(ScopedEnvironment::Variables{{"TERM", "xterm"}});
  TerminalProcess run(training.words({"-n", "2"}), 100);
  std::string first;
  EXPECT_TRUE(eventually([&] {
    const std::vector<std::string> rows = rows_on_screen(run.output());
    if (has_row_below_lines(rows) && first.empty()) first = rows.back();
    return has_row_below_lines(rows) && rows.back() != first;  // it is live
  })) << run.output();
  EXPECT_LT(first.size(), 100U) << first;
  training.end();
  EXPECT_EQ(run.wait(), 0) << run.output();
  const std::vector<std::string> rows = rows_on_screen(run.output());
  EXPECT_EQ(rows.back(), "[worker:0] is done") << run.output();
  for (const std::string& row : rows) EXPECT_FALSE(matches(row, kRow)) << row;
}

// Real time is the subject: ten changes take about 2 s, and would take 10 s with a look each
// second.
TEST(Progress, IsFreshOnATerminal) {
  const EndlessTraining training;
  const ScopedEnvironment kind(ScopedEnvironment::Variables{{"TERM", "xterm"}});
  TerminalProcess run(training.words({"-n", "1"}), 100);
  std::set<std::string> seen;
  const auto sees = [&](size_t count) {
    return eventually([&] {
      const std::vector<std::string> rows = rows_on_screen(run.output());
      std::smatch row;
      if (!rows.empty() && std::regex_search(rows.back(), row, std::regex(kRow))) {
        seen.insert(row.str());
      }
      return seen.size() >= count;
    });
  };
  EXPECT_TRUE(sees(1)) << run.output();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(sees(11)) << run.output();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(7)) << run.output();
  training.end();
  EXPECT_EQ(run.wait(), 0) << run.output();
}

TEST(Progress, IsALineEveryFewSecondsElsewhere) {
  const EndlessTraining training;
  Process run(training.words({"-n", "1"}));
  const std::string line = R"(\[worker:0\] epoch 1/2 \[[^\n]* left[^\n]*\n)";
  EXPECT_TRUE(eventually([&] { return matches(run.output(), line); })) << run.output();
  EXPECT_FALSE(contains(run.output(), "\033")) << run.output();
  training.end();
  EXPECT_EQ(run.wait(), 0) << run.output();
  const std::vector<std::string> logs = training.directory().files("worker-0.log");
  ASSERT_EQ(logs.size(), 1U);
  EXPECT_TRUE(matches(text_of(logs[0]), "epoch 1/2 .* left")) << "it is kept";
}

std::string status() {
  Process process({COHORT_COMMAND, "status"});
  const int code = process.wait();
  return process.output() + "exit code " + std::to_string(code);
}

struct StatusOfRun {
  std::string name;
  std::vector<std::string> tasks;
  std::string chief;
};

class StatusOfTraining : public testing::TestWithParam<StatusOfRun> {};

// Also where the program wants no line of progress in its output.
TEST_P(StatusOfTraining, ShowsEpochLossAndTimeLeft) {
  const EndlessTraining training;
  Process run(training.words(GetParam().tasks, true));
  const std::string expected =
      GetParam().chief + R"( [^\n]*\n  epoch 1/2 \[ +\] step [0-9]+  loss [^ ]+  [0-9.]+ h left)";
  std::string told;
  EXPECT_TRUE(eventually([&] {
    told = status();
    return matches(told, expected) && contains(told, "exit code 0");
  })) << told;
  training.end();
  EXPECT_EQ(run.wait(), 0) << run.output();
  EXPECT_FALSE(contains(run.output(), "epoch")) << run.output();
  EXPECT_TRUE(training.directory().files("progress.json").empty());
}

// A chief or a task that trains alone does not listen, so its launcher names the process.
TEST_P(StatusOfTraining, NamesTheProcessOfTheChief) {
  const EndlessTraining training;
  Process run(training.words(GetParam().tasks, true));
  const std::regex process(GetParam().chief + R"( [^\n]*(\(pid | )([0-9]{2,})(\)| +[0-9]+ s ))");
  std::string told;
  std::smatch found;
  EXPECT_TRUE(eventually([&] {
    told = status();
    return std::regex_search(told, found, process);
  })) << told;
  if (!found.empty()) {
    const std::string program = text_of("/proc/" + found[2].str() + "/cmdline");
    EXPECT_TRUE(program.starts_with(STRATEGY_TASK)) << told << program;
  }
  training.end();
  EXPECT_EQ(run.wait(), 0) << run.output();
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, StatusOfTraining,
    testing::Values(StatusOfRun{"OneTask", {"-n", "1"}, "worker:0"},
                    StatusOfRun{"Workers", {"-n", "2"}, "worker:0"},
                    StatusOfRun{"Servers", {"--workers", "1", "--ps", "1", "--chief"}, "chief:0"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace cohort::test
