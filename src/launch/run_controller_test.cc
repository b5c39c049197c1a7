#include "launch/run_controller.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "support/fake_clock.h"

namespace cohort::cli {
namespace {

using namespace std::chrono_literals;

// A machine that notes its orders.
class Notes : public TaskHost {
 public:
  void start(const TaskStart& start) override { text += "start " + label_of(start.id) + "\n"; }
  void signal(size_t task, int signal) override {
    text += std::to_string(task) + " gets " + std::to_string(signal) + "\n";
  }
  void ask_place(size_t) override {}
  std::string text;
};

Ending died_of(int signal) { return {.status = signal}; }
Ending exited_with(int code) { return {.status = code << 8}; }

struct WatchedRun {
  explicit WatchedRun(const Roles& roles, RunController::Options options = {.grace = 5s})
      : controller(
            tasks(roles), std::move(options), [this](const std::string& line) { said += line; },
            clock) {
    controller.start();
    notes.text.clear();
  }
  std::vector<RunTask> tasks(const Roles& roles) {
    std::vector<RunTask> all;
    for (const TaskId& id : tasks_of(roles)) {
      all.push_back({.start = {.task = all.size(), .id = id}, .host = &notes});
    }
    return all;
  }
  internal::FakeClock clock;
  Notes notes;
  std::string said;
  RunController controller;
};

TEST(RunController, StopsTheParameterServersWhenAllWorkersAreDone) {
  WatchedRun run({.workers = 2, .ps = 1});
  run.controller.ended(0, {});
  run.controller.tick();
  EXPECT_EQ(run.notes.text, "");
  run.controller.ended(1, {});
  run.controller.tick();
  EXPECT_EQ(run.notes.text, "2 gets 15\n");
  EXPECT_EQ(run.notes.text, "2 gets 15\n") << "it has time to end";
  run.clock.advance(5s);
  run.controller.tick();
  EXPECT_EQ(run.notes.text, "2 gets 15\n2 gets 9\n");
  run.controller.ended(2, died_of(SIGTERM));
  EXPECT_TRUE(run.controller.over());
  EXPECT_EQ(run.controller.exit_code(), 0);
  EXPECT_FALSE(run.controller.guilty());
}

TEST(RunController, EndsTheRunWithItsChief) {
  WatchedRun run({.workers = 1, .chief = true});
  run.controller.ended(0, {});
  run.controller.tick();
  EXPECT_EQ(run.notes.text, "") << "the worker has time to end";
  run.clock.advance(5s);
  run.controller.tick();
  EXPECT_EQ(run.notes.text, "1 gets 15\n");
  run.clock.advance(5s);
  run.controller.tick();
  EXPECT_EQ(run.notes.text, "1 gets 15\n1 gets 9\n");
}

// The chief dies after it has told the others to finish, and would wait for them forever.
TEST(RunController, RestartsAChiefWithTheTasksThatAreDone) {
  WatchedRun run({.workers = 2, .ps = 1, .chief = true}, {.max_restarts = {{"chief", 1}}});
  run.controller.ended(1, {});
  run.controller.ended(3, {});
  run.controller.ended(0, died_of(SIGKILL));
  EXPECT_EQ(run.notes.text, "start chief:0\nstart worker:0\nstart ps:0\n");
  run.controller.ended(2, {});  // the dead chief had told it
  EXPECT_TRUE(run.notes.text.ends_with("start worker:1\n")) << run.notes.text;
  for (const size_t task : {0, 1, 2, 3}) {
    EXPECT_FALSE(run.controller.over());
    run.controller.ended(task, {});
  }
  EXPECT_TRUE(run.controller.over());
  EXPECT_EQ(run.controller.exit_code(), 0);
}

TEST(RunController, RestartsEachTaskAsOftenAsItsJobMay) {
  WatchedRun run({.workers = 2, .ps = 1}, {.max_restarts = {{"worker", 1}}});
  run.controller.ended(0, died_of(SIGSEGV));
  run.controller.ended(1, exited_with(3));
  EXPECT_EQ(run.notes.text, "start worker:0\nstart worker:1\n");
  EXPECT_NE(run.said.find("worker:0 died: segmentation fault (signal 11). Restart 1 of 1"),
            std::string::npos)
      << run.said;
  run.controller.ended(0, died_of(SIGSEGV));
  EXPECT_EQ(run.controller.guilty(), 0U);
  EXPECT_EQ(run.controller.exit_code(), 128 + SIGSEGV);
}

TEST(RunController, DoesNotRestartWhatCannotBeStarted) {
  WatchedRun run({.workers = 1}, {.max_restarts = {{"worker", 9}}});
  run.controller.ended(0, {.not_started = "no such program"});
  EXPECT_EQ(run.notes.text, "");
  EXPECT_EQ(run.controller.exit_code(), 127);
}

TEST(RunController, DoesNotRestartOnAMachineThatIsLost) {
  WatchedRun run({.workers = 2}, {.max_restarts = {{"worker", 9}}});
  run.controller.ended(0, {.lost_machine = "the machine was lost", .seconds = 512});
  EXPECT_EQ(run.notes.text, "");
  EXPECT_EQ(run.controller.guilty(), 0U);
  EXPECT_EQ(run.controller.exit_code(), 1);
}

TEST(RunController, TakesNoConsequenceForTheCause) {
  WatchedRun run({.workers = 3});
  Ending noticed = died_of(SIGABRT);
  noticed.crash.exception = "cohort::Error";
  noticed.crash.what = "UNAVAILABLE: [Run] worker 1 is gone";
  run.controller.ended(0, noticed);
  run.controller.ended(1, died_of(SIGKILL));
  run.controller.ended(2, exited_with(1));
  EXPECT_EQ(run.controller.guilty(), 1U);
}

TEST(RunController, KillsAtTheSecondInterruption) {
  WatchedRun run({.workers = 1}, {.grace = 1h});
  run.controller.stop(SIGINT);
  EXPECT_EQ(run.notes.text, "0 gets 15\n");
  run.controller.stop(SIGINT);
  EXPECT_EQ(run.notes.text, "0 gets 15\n0 gets 9\n");
  run.controller.ended(0, died_of(SIGKILL));
  EXPECT_EQ(run.controller.exit_code(), 128 + SIGINT);
}

// The manager of a cluster may signal all its machines and the launcher at the same time.
TEST(RunController, TakesTheSignalOfAMachineForNoSecondInterruption) {
  WatchedRun run({.workers = 2}, {.max_restarts = {{"worker", 1}}, .grace = 1h});
  run.controller.stop_for("10.0.0.2", SIGTERM);
  run.controller.stop_for("10.0.0.3", SIGTERM);
  run.controller.stop(SIGINT);
  EXPECT_EQ(run.said, "the machine at 10.0.0.2 was asked to end: stopping the tasks");
  EXPECT_EQ(run.notes.text, "0 gets 15\n1 gets 15\n");
  run.controller.ended(0, died_of(SIGTERM));
  run.controller.stop(SIGINT);
  EXPECT_EQ(run.notes.text, "0 gets 15\n1 gets 15\n1 gets 9\n");
  run.controller.ended(1, died_of(SIGKILL));
  EXPECT_FALSE(run.controller.guilty());
  EXPECT_EQ(run.controller.exit_code(), 128 + SIGTERM);
}

TEST(RunController, NamesTheTasksThatItKillsAfterTheGrace) {
  WatchedRun run({.workers = 3, .ps = 1}, {.grace = 1500ms});
  run.controller.stop(SIGTERM);
  run.controller.ended(1, died_of(SIGTERM));
  run.controller.tick();
  EXPECT_EQ(run.said, "");
  run.clock.advance(1500ms);
  run.controller.tick();
  run.controller.tick();
  EXPECT_EQ(run.said, "worker:0, worker:2 did not end within 1.5 s and were killed; see --grace");
}

TEST(RunController, AsksTheChiefFirst) {
  WatchedRun run({.workers = 1, .ps = 1, .chief = true}, {.grace = 1h});
  run.controller.stop(SIGINT);
  EXPECT_EQ(run.notes.text, "0 gets 15\n");
  run.controller.ended(0, died_of(SIGTERM));
  EXPECT_EQ(run.notes.text, "0 gets 15\n1 gets 15\n2 gets 15\n");
  run.controller.ended(1, exited_with(0));
  EXPECT_EQ(run.notes.text, "0 gets 15\n1 gets 15\n2 gets 15\n");
}

TEST(RunController, AsksParameterServersAfterThoseThatTrain) {
  WatchedRun run({.workers = 2, .ps = 1}, {.grace = 1h});
  run.controller.stop(SIGTERM);
  EXPECT_EQ(run.notes.text, "0 gets 15\n1 gets 15\n");
  run.controller.ended(1, died_of(SIGTERM));
  EXPECT_EQ(run.notes.text, "0 gets 15\n1 gets 15\n");
  run.controller.ended(0, died_of(SIGTERM));
  EXPECT_EQ(run.notes.text, "0 gets 15\n1 gets 15\n2 gets 15\n");
}

TEST(Report, SaysThatAllowedRestartsWouldHaveHelped) {
  WatchedRun run({.workers = 2});
  run.controller.ended(1, died_of(SIGKILL));
  EXPECT_NE(failure_report(run.controller, 1, {"a", "b"})
                .find("  --max-restarts worker=1 would have started it again\n"),
            std::string::npos);
  WatchedRun allowed({.workers = 1}, {.max_restarts = {{"worker", 1}}});
  allowed.controller.ended(0, died_of(SIGKILL));
  allowed.controller.ended(0, died_of(SIGKILL));
  EXPECT_EQ(failure_report(allowed.controller, 0, {"a"}).find("--max-restarts"), std::string::npos);
  WatchedRun wrong({.workers = 1});
  wrong.controller.ended(0, {.not_started = "no such program"});
  EXPECT_EQ(failure_report(wrong.controller, 0, {"a"}).find("--max-restarts"), std::string::npos);
}

TEST(Report, PromisesNothingOfRestartsAfterAnErrorThatWouldComeAgain) {
  const auto names_restarts = [](const std::string& exception, const std::string& what) {
    WatchedRun run({.workers = 1});
    Ending dead = died_of(SIGABRT);
    dead.crash.exception = exception;
    dead.crash.what = what;
    run.controller.ended(0, dead);
    return failure_report(run.controller, 0, {"a"}).find("--max-restarts") != std::string::npos;
  };
  for (const char* code : {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "UNIMPLEMENTED",
                           "PERMISSION_DENIED", "OUT_OF_RANGE"}) {
    EXPECT_FALSE(names_restarts("cohort::Error", std::string(code) + ": [Run] x")) << code;
  }
  for (const char* code : {"UNAVAILABLE", "ABORTED", "INTERNAL", "RESOURCE_EXHAUSTED"}) {
    EXPECT_TRUE(names_restarts("cohort::Error", std::string(code) + ": [Run] x")) << code;
  }
  EXPECT_TRUE(names_restarts("std::runtime_error", "NOT_FOUND: by another library"));
}

TEST(Report, AsksForDebugInformationIfMainHasNoLine) {
  const auto report_of = [](const std::string& frame) {
    WatchedRun run({.workers = 1});
    Ending dead = died_of(SIGSEGV);
    dead.crash.frames = {"step() at train.cc:7", frame};
    run.controller.ended(0, dead);
    return failure_report(run.controller, 0, {"a"});
  };
  EXPECT_NE(report_of("main").find("#1  main\n    compile with -g for lines\n"), std::string::npos)
      << report_of("main");
  EXPECT_EQ(report_of("main at train.cc:9").find("compile with -g"), std::string::npos);
}

TEST(Report, FoldsTheOthers) {
  WatchedRun run({.workers = 4});
  Ending dead = exited_with(7);
  dead.last_lines = {"first", "last"};
  run.controller.ended(1, dead);
  const std::string report = failure_report(run.controller, 1, {"a", "b.log", "c", "d"});
  EXPECT_NE(report.find("worker:1 died after 0.0 s: exited with code 7"), std::string::npos)
      << report;
  EXPECT_NE(report.find("    | last\n"), std::string::npos) << report;
  EXPECT_NE(report.find("worker:0, worker:2, worker:3: still running"), std::string::npos)
      << report;
  EXPECT_NE(report.find("b.log"), std::string::npos) << report;
}

}  // namespace
}  // namespace cohort::cli
