// A client that is frozen for longer than its server's limit, and wakes up again.

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "cohort/cohort.h"
#include "faults/faults.h"
#include "support/process_cluster.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

// How its messages are sent, and whether it is frozen between steps or inside of one.
struct Freezing {
  const char* way;
  const char* doing;
};

class FrozenClient : public testing::TestWithParam<Freezing> {
 protected:
  double counted() const { return test::last_number(client_.output(), "counted"); }
  bool keeps_nothing(const std::string& job) const {
    const ServerStatus status = server_status(tasks_.target(job));
    return status.sessions.empty() && status.worker_sessions == 0 && status.plans == 0 &&
           status.running_steps == 0;
  }
  uint64_t running_steps() const { return server_status(tasks_.target("ps")).running_steps; }

  const ScopedEnvironment way_{{{"COHORT_TRANSPORT", GetParam().way}}};
  test::ProcessCluster tasks_{COHORT_TEST_TASK, 1, 1};
  test::Process client_{{FAULTS_TRAINER, "visit", tasks_.target(), GetParam().doing}};
};

TEST_P(FrozenClient, IsGivenUpAndLearnsIt) {
  const bool waits = GetParam().doing == std::string("wait");
  ASSERT_TRUE(test::eventually([&] { return counted() >= 1; })) << client_.output();
  if (waits) {
    ASSERT_TRUE(test::eventually([&] { return running_steps() == 1; }));
  }
  client_.freeze();
  // The limit of these tasks is 3 s.
  EXPECT_TRUE(test::eventually([&] { return keeps_nothing("worker") && keeps_nothing("ps"); },
                               std::chrono::seconds(20)));

  client_.send(SIGCONT);
  const int code = client_.wait(std::chrono::seconds(20));
  EXPECT_TRUE(code == 100 + static_cast<int>(Code::Unavailable) ||
              code == 100 + static_cast<int>(Code::Aborted))
      << code << client_.output();
  EXPECT_NE(client_.output().find("was silent for 3.0 s and was given up"), std::string::npos)
      << client_.output();
}

TEST_P(FrozenClient, StaysWhenItIsFrozenForLess) {
  ASSERT_TRUE(test::eventually([&] { return counted() >= 1; })) << client_.output();
  client_.freeze();
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // how long it is frozen
  client_.send(SIGCONT);
  if (GetParam().doing == std::string("wait")) {
    // Longer than the limit: a client that waits is not silent, its thread answers.
    EXPECT_EQ(client_.wait(std::chrono::seconds(5)), -1000) << client_.output();
    return;
  }
  const double before = counted();
  EXPECT_TRUE(test::eventually([&] { return counted() > before + 10; })) << client_.output();
}

INSTANTIATE_TEST_SUITE_P(Ways, FrozenClient,
                         testing::Values(Freezing{"shared-memory", "count"},
                                         Freezing{"shared-memory", "wait"},
                                         Freezing{"grpc", "count"}, Freezing{"grpc", "wait"}),
                         [](const auto& param) {
                           std::string name = std::string(param.param.way) + param.param.doing;
                           std::erase(name, '-');
                           return name;
                         });

TEST(FrozenClients, AreOneLineInTheLogOfTheirServer) {
  const auto lines_in = [](const std::string& log) {
    constexpr std::string_view kText = " was given up with its sessions";
    int lines = 0;
    for (size_t at = 0; (at = log.find(kText, at)) != std::string::npos; ++at) ++lines;
    return lines;
  };
  test::ProcessCluster tasks{COHORT_TEST_TASK, 1, 1};
  std::vector<std::unique_ptr<test::Process>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<test::Process>(
        std::vector<std::string>{FAULTS_TRAINER, "visit", tasks.target(), "wait"}));
  }
  for (const auto& client : clients) {
    ASSERT_TRUE(test::eventually([&] {
      return test::last_number(client->output(), "counted") >= 1;
    })) << client->output();
  }
  for (const auto& client : clients) client->freeze();
  ASSERT_TRUE(test::eventually([&] { return server_status(tasks.target()).sessions.empty(); },
                               std::chrono::seconds(20)));
  EXPECT_EQ(lines_in(tasks.task("worker", 0).output()), 1) << tasks.task("worker", 0).output();
}

}  // namespace
}  // namespace cohort
