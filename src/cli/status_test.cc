#include <gtest/gtest.h>

#include "cli/command.h"

namespace cohort::cli {
namespace {

TEST(StatusTable, DoesNotBlameAChiefThatOnlyCoordinates) {
  std::vector<AskedTask> tasks(2);
  tasks[0].label = "chief:0";
  tasks[1].label = "worker:0";
  for (AskedTask& task : tasks) {
    task.problem.code = Code::Unavailable;
    task.problem.message = "no answer";
  }
  const std::string table = status_table(tasks, tasks, 1);
  EXPECT_NE(table.find("chief:0        does not listen; a chief"), std::string::npos) << table;
  EXPECT_NE(table.find("worker:0       no answer"), std::string::npos) << table;
}

// A coordinator opens new sessions on its workers again and again.
TEST(StatusTable, CountsStepsOfSessionsThatHaveEnded) {
  std::vector<AskedTask> before(1);
  before[0].label = "worker:0";
  before[0].status.activity.steps = 900;
  before[0].server.sessions = {{.id = 1, .client = "chief", .steps = 26}};
  std::vector<AskedTask> now = before;
  now[0].status.activity.steps = 1000;
  now[0].server.sessions = {{.id = 2, .client = "chief", .steps = 1}};
  const std::string table = status_table(before, now, 1);
  EXPECT_NE(table.find("        1     1000      100.0 "), std::string::npos) << table;
}

TEST(StatusTable, NamesTheProcessOfEachTask) {
  std::vector<AskedTask> tasks(3);
  tasks[0].label = "chief:0";
  tasks[1].label = "worker:0";
  tasks[2].label = "worker:1";
  tasks[0].problem = {.code = Code::Unavailable, .message = "no answer"};
  tasks[2].problem = {.code = Code::DeadlineExceeded, .message = "no answer"};
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i].process = static_cast<pid_t>(4711 + i);
  const std::string table = status_table(tasks, tasks, 1);
  for (const char* part : {"pid        up", " coordinates need not (pid 4711)\n", " 4712       0 s",
                           "no answer (pid 4713)\n"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(StatusTable, ShowsHowFarATrainingIsAlsoOfATaskThatDoesNotListen) {
  std::vector<AskedTask> tasks(1);
  tasks[0].label = "worker:0";
  tasks[0].problem = {.code = Code::Unavailable, .message = "no answer"};
  tasks[0].progress = "epoch 2/5 step 7  loss 0.5  3 min left";
  EXPECT_TRUE(status_table(tasks, tasks, 1)
                  .ends_with("worker:0       does not listen; a task that trains alone need not\n"
                             "  epoch 2/5 step 7  loss 0.5  3 min left\n"))
      << status_table(tasks, tasks, 1);
}

TEST(StatusTable, DoesNotBlameTheOnlyTaskOfARun) {
  std::vector<AskedTask> tasks(1);
  tasks[0].label = "worker:0";
  tasks[0].problem = {.code = Code::Unavailable, .message = "no answer"};
  std::string table = status_table(tasks, tasks, 1);
  EXPECT_TRUE(table.ends_with("worker:0       does not listen; the only task of a run need not\n"))
      << table;
  tasks[0].label = "";  // the user gave its address
  table = status_table(tasks, tasks, 1);
  EXPECT_TRUE(table.ends_with(" no answer\n")) << table;
}

}  // namespace
}  // namespace cohort::cli
