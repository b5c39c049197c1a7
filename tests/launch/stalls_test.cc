// All tasks wait for one task: the launcher says for which, in which call, and where that task is.

#include <gtest/gtest.h>

#include <random>

#include "launch/launch.h"

namespace cohort::test {
namespace {

// How a task stalls, and what the launcher is to say of it.
struct Way {
  std::string name;
  std::vector<std::string> roles;
  std::string guilty;
  std::vector<std::string> said;
};

Way with_workers(const std::string& name, const std::string& guilty, const std::string& doing) {
  return {name, {"-n", "3"}, guilty, {"all other tasks wait for " + guilty, guilty + doing}};
}
Way loop(const std::string& guilty) {
  Way way = with_workers("loop", guilty, " computes");
  way.said.insert(way.said.end(), {"call ", "all_reduce", "compute_for_ever"});
  return way;
}
Way stop(const std::string& guilty) {
  return with_workers("stop", guilty, " is stopped (SIGSTOP); kill -CONT");
}
Way input(const std::string& guilty) {
  Way way = with_workers("input", guilty, " has been getting its input for");
  way.said.emplace_back("stalling_task.cc:");
  return way;
}
Way late(const std::string& guilty) {
  Way way = with_workers("late", guilty, " computes");
  way.said.insert(way.said.end(), {"the beginning of MultiWorker", "compute_for_ever"});
  return way;
}
Way parameter_server() {
  return {
      "ps",
      {"--workers", "1", "--ps", "1"},
      "ps:0",
      {"worker:0 waits for ps:0", "step ", "tensor 'ReadVariable", "ps:0 is stopped (SIGSTOP)"}};
}

Way tokens() {
  return {"tokens",
          {"--workers", "2", "--ps", "1"},
          "worker:1",
          {"all other tasks wait for worker:1, for",
           "ps:0: in [Queue] dequeue from 'tokens', which is empty", "worker:1 computes",
           "compute_for_ever"}};
}

// A run with a stall in it.
class StalledRun {
 public:
  explicit StalledRun(const Way& way) : way_(way), launcher_(words(way)) {}
  ~StalledRun() {
    launcher_.send(SIGTERM);
    launcher_.wait();
  }
  StalledRun(const StalledRun&) = delete;
  StalledRun& operator=(const StalledRun&) = delete;

  // What is missing in what the launcher says; empty when all of it comes in time.
  std::string missing(std::chrono::seconds limit) const {
    const bool all = eventually([&] { return missing_now().empty(); }, limit);
    return all ? "" : "'" + missing_now() + "' is missing in\n" + launcher_.output();
  }

 private:
  std::string missing_now() const {
    const std::string output = launcher_.output();
    for (const std::string& text : way_.said) {
      if (!contains(output, text)) return text;
    }
    return "";
  }
  std::vector<std::string> words(const Way& way) {
    setenv("COHORT_STALLS", way.guilty.c_str(), 1);
    std::vector<std::string> all = run_words({"--stall-after", "1", "--grace", "0.2"});
    all.insert(all.end(), way.roles.begin(), way.roles.end());
    all.insert(all.end(), {STALLING_TASK, way.name});
    return all;
  }

  const Way way_;
  const LaunchDirectory directory_;
  Process launcher_;
};

constexpr std::chrono::seconds kLimit{30};  // that includes starting, on a busy machine

TEST(Stall, OfATaskThatComputesForEverIsToldWithItsStack) {
  EXPECT_EQ(StalledRun(loop("worker:1")).missing(kLimit), "");
}
TEST(Stall, OfATaskThatIsStoppedIsTold) {
  EXPECT_EQ(StalledRun(stop("worker:0")).missing(kLimit), "");
}
TEST(Stall, OfATaskThatWaitsForItsInputIsTold) {
  EXPECT_EQ(StalledRun(input("worker:2")).missing(kLimit), "");
}
TEST(Stall, OfATaskThatDoesNotBeginIsTold) {
  EXPECT_EQ(StalledRun(late("worker:1")).missing(kLimit), "");
}
TEST(Stall, OfAParameterServerIsToldWithTheTensorThatIsMissing) {
  EXPECT_EQ(StalledRun(parameter_server()).missing(kLimit), "");
}

TEST(Stall, AtAQueueOnAParameterServerIsThatOfTheWorkerThatIsToFillIt) {
  EXPECT_EQ(StalledRun(tokens()).missing(kLimit), "");
}

TEST(Status, SaysWhoWaitsForWhom) {
  const StalledRun run(loop("worker:1"));
  std::string output;
  const auto all = [&] {
    Process status({COHORT_COMMAND, "status"});
    status.wait();
    output = status.output();
    return contains(output, "waits for /job:worker/replica:0/task:1, for ") &&
           contains(output, "all_reduce(Sum)");
  };
  EXPECT_TRUE(eventually(all)) << output;
  EXPECT_TRUE(contains(output, "input    wait")) << output;
}

// A step that takes long while no task waits is not a stall. On a busy machine one worker may truly
// wait for the other to begin.
TEST(Stall, IsNotSeenWhereThereIsNone) {
  const LaunchDirectory directory;
  unsetenv("COHORT_STALLS");
  const ScopedEnvironment steps(ScopedEnvironment::Variables{{"COHORT_STEPS", "2000"}});
  const Launched run = launch({"-n", "2", "--stall-after", "1", STALLING_TASK, "loop"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_FALSE(contains(run.output, "all_reduce")) << run.output;
}

// make soak asks for a hundred.
TEST(Stalls, AreAllToldRightly) {
  const char* const text = std::getenv("COHORT_STALL_COUNT");
  std::mt19937 random(17);
  for (int left = text == nullptr ? 2 : std::atoi(text); left > 0;) {
    std::vector<std::unique_ptr<StalledRun>> group;
    for (int i = 0; i < 2 && left > 0; ++i, --left) {
      const std::string guilty = "worker:" + std::to_string(random() % 3);
      std::vector<Way> ways{loop(guilty), stop(guilty), input(guilty), late(guilty),
                            parameter_server()};
      ways.back().said.resize(1);  // what is waited for depends on when it stops
      group.push_back(std::make_unique<StalledRun>(ways[random() % ways.size()]));
    }
    for (const auto& run : group) EXPECT_EQ(run->missing(std::chrono::seconds(60)), "");
  }
}

}  // namespace
}  // namespace cohort::test
