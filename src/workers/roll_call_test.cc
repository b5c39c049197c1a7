#include "workers/roll_call.h"

#include <gtest/gtest.h>

#include <future>

#include "support/free_ports.h"
#include "transport/status_message.h"
#include "workers/introduction.h"
#include "workers/visits.h"

// Workers that no release of ours would be: what they say is made up here.

namespace cohort::internal {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

WorkerList two_workers() {
  const TaskList addresses = test::free_addresses(2);
  return {.workers = {{"/job:worker/replica:0/task:0", addresses[0]},
                      {"/job:worker/replica:0/task:1", addresses[1]}},
          .self = 0,
          .is_chief = true,
          .spans_hosts = false,
          .cluster = "two workers"};
}

// What the leader throws when that visits it, and what the visitor is told.
struct Outcome {
  Status leader = {};
  Status visitor = {};
};

Outcome visit_leader(const WorkerList& workers, const Message& said) {
  std::promise<Status> told;
  std::atomic<bool> is_told = false;
  Visits visits({}, {.answered = [&](const Message& answer) {
                  MessageReader reader(answer, "an answer");
                  if (read_kind(reader) != IntroductionKind::Problem || is_told.exchange(true)) {
                    return;
                  }
                  told.set_value(read_status(reader));
                }});
  auto leading = std::async(std::launch::async, [&] {
    return capture_status([&] { WorkerRollCall(workers, {.timeout = seconds(20)}).run(); });
  });
  const auto limit = steady_clock::now() + seconds(10);
  Status visited;
  do {
    visited = capture_status([&] { (void)visits.visit(workers.workers[0].address, limit, said); });
  } while (!visited.ok() && steady_clock::now() < limit);
  EXPECT_TRUE(visited.ok()) << visited.to_string();
  Outcome outcome{.leader = leading.get(), .visitor = {}};
  auto answer = told.get_future();
  if (answer.wait_for(seconds(2)) == std::future_status::ready) outcome.visitor = answer.get();
  return outcome;
}

Introduction second_worker(const WorkerList& workers) {
  return {.version = "0.0.0",
          .peer = {.name = workers.workers[1].name,
                   .incarnation = 7,
                   .address = workers.workers[1].address,
                   .cluster = 0},
          .id = 1,
          .cluster = workers.cluster,
          .workers = 2,
          .replicas = 1,
          .settings = "",
          .host = "another machine",
          .process = "process 1 on another machine",
          .resumes = false};
}

TEST(WorkerRollCall, NamesAWorkerOfAnotherBuildOnBoth) {
  const WorkerList workers = two_workers();
  const auto began = steady_clock::now();
  const Outcome outcome = visit_leader(workers, hello(second_worker(workers)));
  EXPECT_LT(steady_clock::now() - began, seconds(8));
  for (const Status& status : {outcome.leader, outcome.visitor}) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    for (const char* const part : {"different builds of the library", "0.0.0", "task:0", "task:1",
                                   "process 1 on another machine"}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
    }
  }
}

TEST(WorkerRollCall, NamesAWorkerThatIntroducesItselfByAnotherProtocol) {
  Message strange;
  MessageWriter(strange).number(77).number(0).text("whatever comes then");
  const Status status = visit_leader(two_workers(), strange).leader;
  EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
  EXPECT_NE(status.message.find("a worker is of another build"), std::string::npos)
      << status.message;
}

}  // namespace
}  // namespace cohort::internal
