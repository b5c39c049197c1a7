// A worker that is frozen for longer than the limit and wakes up again.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "faults/faults.h"
#include "support/process_cluster.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

class FrozenWriter : public testing::TestWithParam<const char*> {
 protected:
  double counted() const { return test::last_number(writer_.output(), "counted"); }
  // Nobody uses the ps.
  bool is_given_up() const {
    const ServerStatus status = server_status("grpc://" + ps_address_);
    return status.worker_sessions == 0 && status.running_steps == 0;
  }

  const ScopedEnvironment way_{{{"COHORT_TRANSPORT", GetParam()}}};
  const std::string ps_address_ = test::free_addresses(1)[0];
  const std::string worker_address_ = test::free_addresses(1)[0];
  test::Process ps_{{COHORT_TEST_TASK, ps_address_, worker_address_, "ps", "0"}};
  test::Process writer_{{FAULTS_TRAINER, "count", ps_address_, worker_address_}};
};

TEST_P(FrozenWriter, DoesNotWriteWhenItWakes) {
  ASSERT_TRUE(test::eventually([&] { return counted() >= 10; })) << writer_.output();
  writer_.freeze();
  ASSERT_TRUE(test::eventually([&] { return is_given_up(); }, std::chrono::seconds(20)));

  Graph graph;
  const auto building = graph.as_default();
  const auto on = device("/job:ps/task:0");
  Variable v(0.0, {.name = "v"});
  Session session("grpc://" + ps_address_);
  EXPECT_GE(session.run(v.read_value()).to<double>(), 10);
  session.run(v.assign(Tensor(-1000.0)));

  writer_.send(SIGCONT);
  const int code = writer_.wait(std::chrono::seconds(20));
  EXPECT_TRUE(code == 100 + static_cast<int>(Code::Unavailable) ||
              code == 100 + static_cast<int>(Code::Aborted))
      << code << writer_.output();
  EXPECT_EQ(session.run(v.read_value()).to<double>(), -1000);
}

INSTANTIATE_TEST_SUITE_P(Ways, FrozenWriter, testing::Values("shared-memory", "grpc"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace cohort
