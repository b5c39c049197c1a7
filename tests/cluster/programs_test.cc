// Small programs as people write them, and everything that they print.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/free_ports.h"
#include "support/process.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

using std::chrono::seconds;

class Programs : public testing::Test {
 protected:
  std::string tf_config(const std::string& task) const {
    return R"({"cluster": {"ps": [")" + addresses_[0] + R"("], "worker": [")" + addresses_[1] +
           R"(", ")" + addresses_[2] + R"("]}, "task": )" + task + "}";
  }
  std::unique_ptr<test::Process> start_role(const std::string& type, int index) const {
    const ScopedEnvironment environment(
        {{"TF_CONFIG",
          tf_config(R"({"type": ")" + type + R"(", "index": )" + std::to_string(index) + "}")}});
    return std::make_unique<test::Process>(std::vector<std::string>{PROGRAM_ROLE});
  }
  const std::vector<std::string> addresses_ = test::free_addresses(3);
};

TEST_F(Programs, OneProgramIsEveryRole) {
  const auto ps = start_role("ps", 0);
  const auto worker = start_role("worker", 0);
  test::Process client({PROGRAM_IN_GRAPH_CLIENT, "grpc://" + addresses_[0]});
  EXPECT_EQ(client.wait(seconds(60)), 0) << client.output();
  const std::string output = client.output();
  for (const char* line : {"MatMul: (MatMul): /job:worker/replica:0/task:0/device:CPU:0\n",
                           "w: (VariableHandle): /job:ps/replica:0/task:0/device:CPU:0\n"}) {
    EXPECT_NE(("\n" + output).find(std::string("\n") + line), std::string::npos) << line << output;
  }
  EXPECT_TRUE(output.ends_with("Tensor([[3. 3. 3. 3.]], shape=(1, 4), dtype=float32)\n")) << output;
  for (const auto& role : {ps.get(), worker.get()}) {
    role->send(SIGTERM);
    EXPECT_EQ(role->wait(seconds(10)), 0) << role->output();
    EXPECT_EQ(role->output(), "");
  }
}

TEST_F(Programs, AnythingElseIsAClient) {
  const auto evaluator = start_role("evaluator", 0);
  EXPECT_EQ(evaluator->wait(seconds(60)), 0) << evaluator->output();
  EXPECT_EQ(evaluator->output(), "a client of ClusterSpec({'ps': ['" + addresses_[0] +
                                     "'], 'worker': ['" + addresses_[1] + "', '" + addresses_[2] +
                                     "']})\n");
}

TEST_F(Programs, WithoutATargetTheErrorNamesIt) {
  test::Process client({PROGRAM_IN_GRAPH_CLIENT});
  EXPECT_EQ(client.wait(seconds(60)), 1) << client.output();
  for (const char* part : {"INVALID_ARGUMENT", "/job:ps/task:0", "'w'", "grpc://",
                           "/job:localhost/replica:0/task:0/device:CPU:0"}) {
    EXPECT_NE(client.output().find(part), std::string::npos) << part << "\n" << client.output();
  }
}

}  // namespace
}  // namespace cohort
