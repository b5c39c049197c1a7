// The timelines of all tasks of a run, in one file.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "launch/launch.h"

namespace cohort::test {
namespace {

using Json = nlohmann::json;

struct Span {
  std::string name;
  int row = 0;
  double begin = 0;
  double end = 0;

  bool contains(const Span& inner) const {
    constexpr double kRounding = 0.01;  // of the sum of two numbers in the file
    return row == inner.row && begin <= inner.begin && inner.end <= end + kRounding;
  }
};

// A trace as ui.perfetto.dev reads it: checks what that demands of every event.
class Trace {
 public:
  explicit Trace(const std::string& path) {
    const Json all = Json::parse(text_of(path), nullptr, false);
    EXPECT_TRUE(all.is_object() && all["displayTimeUnit"] == "ms" && all["traceEvents"].is_array());
    for (const Json& event : all.value("traceEvents", Json::array())) add(event);
  }

  const std::map<int, std::string>& processes() const { return processes_; }
  const std::set<std::string>& categories() const { return categories_; }
  // Of a process, by category and in their order.
  std::vector<Span> spans(int process, const std::string& category) const {
    const auto found = spans_.find({process, category});
    return found == spans_.end() ? std::vector<Span>() : found->second;
  }

 private:
  void add(const Json& event) {
    ASSERT_TRUE(event["name"].is_string() && event["pid"].is_number_integer() &&
                event["tid"].is_number_integer())
        << event;
    const int process = event["pid"];
    if (event["ph"] == "M") {
      ASSERT_TRUE(event["args"].is_object()) << event;
      if (event["name"] == "process_name") processes_[process] = event["args"]["name"];
      return;
    }
    ASSERT_EQ(event["ph"], "X") << event;
    const double begin = event["ts"], lasted = event["dur"];
    EXPECT_GE(begin, 0) << event;
    EXPECT_GE(lasted, 0) << event;
    EXPECT_LT(begin + lasted, 60e6) << event;  // microseconds: none of the runs takes longer
    categories_.insert(event["cat"]);
    spans_[{process, event["cat"]}].push_back({event["name"], event["tid"], begin, begin + lasted});
  }

  std::map<int, std::string> processes_;
  std::set<std::string> categories_;
  std::map<std::pair<int, std::string>, std::vector<Span>> spans_;
};

// No task leaves a collective before all have entered it: with aligned clocks, all tasks are in
// each collective at the same time.
void expect_same_collectives(const Trace& trace, int tasks) {
  const std::vector<Span> first = trace.spans(0, "collective");
  EXPECT_GT(first.size(), 20U);
  for (int task = 1; task < tasks; ++task) {
    const std::vector<Span> other = trace.spans(task, "collective");
    ASSERT_EQ(other.size(), first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_LT(first[i].begin, other[i].end) << i;
      EXPECT_LT(other[i].begin, first[i].end) << i;
    }
  }
}

TEST(Trace, HasTheStepsInputAndCollectivesOfAllTasks) {
  const LaunchDirectory directory;
  const std::string file = directory.path() + "/run.json";
  const ScopedEnvironment steps(ScopedEnvironment::Variables{{"COHORT_STEPS", "30"}});
  const Launched run = launch({"-n", "2", "--trace", file, STALLING_TASK, "none"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(contains(run.output, "the timelines are in " + file)) << run.output;
  const Trace trace(file);
  EXPECT_EQ(trace.processes(), (std::map<int, std::string>{{0, "worker:0"}, {1, "worker:1"}}));
  EXPECT_EQ(trace.categories(), (std::set<std::string>{"backward", "collective", "forward", "input",
                                                       "optimizer", "step"}));
  for (const int task : {0, 1}) {
    EXPECT_EQ(trace.spans(task, "step").size(), 30U);
    EXPECT_GE(trace.spans(task, "input").size(), 30U);
  }
  expect_same_collectives(trace, 2);
}

TEST(Trace, HasTheStepsOfServersThatSessionsUse) {
  const LaunchDirectory directory;
  const std::string file = directory.path() + "/run.json";
  const Launched run = launch({"--workers", "2", "--ps", "1", "--trace", file, TRAIN_TASK});
  ASSERT_EQ(run.code, 0) << run.output;
  const Trace trace(file);
  ASSERT_EQ(trace.processes().size(), 3U);
  const int ps = 2;  // behind the workers
  EXPECT_EQ(trace.processes().at(ps), "ps:0");
  EXPECT_GE(trace.spans(ps, "step").size(), 7U);  // one, and three of each worker at least
}

TEST(Trace, HasTheLastBackupOfATrainingThatASignalEnds) {
  const LaunchDirectory directory;
  const std::string file = directory.path() + "/run.json";
  const Launched run =
      launch({"-n", "1", "--trace", file, TRAINER_TASK, directory.path(), "1000000", "raise"});
  EXPECT_TRUE(contains(run.output, "asked the training to end: saved after step 9")) << run.output;
  const Trace trace(file);
  const std::vector<Span> steps = trace.spans(0, "step");
  const std::vector<Span> backups = trace.spans(0, "backup");
  ASSERT_EQ(steps.size(), 9U) << run.output;
  ASSERT_FALSE(backups.empty()) << run.output;
  EXPECT_GE(backups.back().begin, steps.back().begin) << "steps and backups are in their order";
}

// The file of one task that makes five steps of that kind.
Trace trace_of_steps(const std::string& kind) {
  const LaunchDirectory directory;
  const std::string file = directory.path() + "/run.json";
  const Launched run =
      launch({"-n", "1", "--trace", file, STEPS_TASK, kind, directory.path() + "/backup"});
  EXPECT_EQ(run.code, 0) << run.output;
  return Trace(file);
}

// How many of the spans of that category are inside the step.
size_t count_inside(const Trace& trace, const Span& step, const std::string& category) {
  size_t count = 0;
  for (const Span& span : trace.spans(0, category)) count += step.contains(span) ? 1 : 0;
  return count;
}

class TraceOfSteps : public testing::TestWithParam<const char*> {};

TEST_P(TraceOfSteps, HasTheirPartsAndTheirNumbers) {
  const std::string kind = GetParam();
  const Trace trace = trace_of_steps(kind);
  std::map<std::string, int> steps;
  for (const Span& step : trace.spans(0, "step")) {
    ++steps[step.name];
    EXPECT_EQ(count_inside(trace, step, "forward"), 1U) << step.name;
    EXPECT_EQ(count_inside(trace, step, "backward"), 1U) << step.name;
    EXPECT_GE(count_inside(trace, step, "optimizer"), 1U) << step.name;
  }
  const int replicas = kind == "alone" || kind == "torch_alone" ? 1 : 2;
  std::map<std::string, int> expected;
  for (int i = 1; i <= 5; ++i) expected["step " + std::to_string(i)] = replicas;
  // Each of the two optimizers counts its own updates.
  if (kind.starts_with("torch")) {
    expected = {{"step 1", 2 * replicas}, {"step 2", 2 * replicas}, {"step 3", replicas}};
  }
  EXPECT_EQ(steps, expected);
  EXPECT_EQ(trace.spans(0, "input").size(), 6U);  // five batches and the end
  EXPECT_EQ(trace.spans(0, "backup").empty(), kind != "trainer");
}

INSTANTIATE_TEST_SUITE_P(Kinds, TraceOfSteps,
                         testing::Values("alone", "mirrored", "traced", "inside", "torch",
                                         "torch_alone", "trainer"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(Trace, HasTheInputThatATracedFunctionTakes) {
  const std::vector<Span> input = trace_of_steps("iterator").spans(0, "input");
  ASSERT_EQ(input.size(), 5U);
  for (size_t i = 1; i < input.size(); ++i) EXPECT_LE(input[i - 1].end, input[i].begin) << i;
}

TEST(Trace, ThatCannotBeWrittenIsAnErrorBeforeAnythingRuns) {
  const LaunchDirectory directory;
  const Launched run =
      launch({"-n", "1", "--trace", "/no/such/directory/run.json", DYING_TASK, "print", "RANK"});
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_TRUE(contains(run.output, "'/no/such/directory/run.json' cannot be written"))
      << run.output;
  EXPECT_FALSE(contains(run.output, "variable 0")) << run.output;
}

TEST(Trace, OfATaskThatDiedHasWhatItDidBefore) {
  const LaunchDirectory directory;
  const std::string file = directory.path() + "/run.json";
  const Launched run = launch({"-n", "2", "--trace", file, DYING_TASK, "segv"});
  EXPECT_NE(run.code, 0);
  EXPECT_EQ(Trace(file).processes().size(), 2U);
}

}  // namespace
}  // namespace cohort::test
