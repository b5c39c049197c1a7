// Sessions that bring names of their own for tasks.

#include <gtest/gtest.h>

#include <set>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

// Servers that know nothing of each other: each is a cluster of its own.
class RenamedTasks : public testing::TestWithParam<const char*> {
 protected:
  static std::string address(const Server& server) { return server.server_def().address(); }

  ClusterSpec spec() const {
    return {{"trainer", {address(first_)}}, {"store", {address(second_), address(third_)}}};
  }
  SessionOptions options() const { return {.cluster = spec()}; }

  const ScopedEnvironment way_{{{"COHORT_TRANSPORT", GetParam()}}};
  Server first_ = Server::create_local_server();
  Server second_ = Server::create_local_server();
  Server third_ = Server::create_local_server();
  Graph graph_;
  Graph::Scope building_ = graph_.as_default();
};

TEST_P(RenamedTasks, RunAGraphTogether) {
  const Tensor x = placeholder(kFloat32, {2});
  Tensor y;
  {
    auto on = device("/job:store/task:0");
    const Variable w(2.f, {.name = "w"});
    y = x * w;
  }
  {
    auto on = device("/job:store/task:1");
    y = y + 1.f;
  }
  const Tensor z = neg(y);
  Session session(first_.target(), options());
  session.run(global_variables_initializer());
  EXPECT_EQ(session.run(z, {{x, Tensor({1.f, 2.f})}}).to_vector<float>(),
            (std::vector<float>{-3, -5}));
  std::set<std::string> tasks;
  for (const std::string& name : session.list_devices())
    tasks.insert(name.substr(0, name.rfind('/')));
  EXPECT_EQ(tasks,
            (std::set<std::string>{"/job:store/replica:0/task:0", "/job:store/replica:0/task:1",
                                   "/job:trainer/replica:0/task:0"}));
}

TEST_P(RenamedTasks, AreNamedInErrors) {
  Tensor read;
  {
    auto on = device("/job:store/task:1");
    read = Variable(2.f, {.name = "w"}).read_value();
  }
  Session session(first_.target(), options());
  EXPECT_ERROR(Code::FailedPrecondition, "/job:store/replica:0/task:1", session.run(read));
  auto on = device("/job:localhost/task:0");
  const Tensor nowhere = neg(read);
  EXPECT_ERROR(Code::InvalidArgument, "/job:localhost/task:0", session.run(nowhere));
}

TEST_P(RenamedTasks, HaveStateOfTheSessionsOwnUnlessItShares) {
  Tensor initialize, read;
  {
    auto on = device("/job:store/task:0");
    const Variable w(2.f, {.name = "w"});
    read = w.read_value();
    initialize = global_variables_initializer();
  }
  {
    Session session(first_.target(), options());
    session.run(initialize);
    EXPECT_EQ(session.run(read).to<float>(), 2);
  }
  Session another(first_.target(), options());
  EXPECT_ERROR(Code::FailedPrecondition, "w", another.run(read));
  SessionOptions sharing = options();
  sharing.share_cluster_state = true;
  {
    Session session(first_.target(), sharing);
    session.run(initialize);
  }
  Session later(first_.target(), sharing);
  EXPECT_EQ(later.run(read).to<float>(), 2);
}

TEST_P(RenamedTasks, MustHaveTheServerOnceUnderAnotherName) {
  const std::string self = address(first_), other = address(second_);
  const auto open = [&](const ClusterSpec& cluster) {
    Session(first_.target(), {.cluster = cluster});
  };
  EXPECT_ERROR(Code::InvalidArgument, "0 times", open({{"trainer", {other}}}));
  EXPECT_ERROR(Code::InvalidArgument, "2 times", open({{"trainer", {self, other, self}}}));
  EXPECT_ERROR(Code::InvalidArgument,
               "/job:localhost/replica:0/task:0, under which that server was started",
               open({{"localhost", {self, other}}}));
  EXPECT_ERROR(Code::InvalidArgument, "port", open({{"trainer", {self, "nowhere"}}}));
  open({{"localhost", {other, self}}});  // another task of the same job is another name
}

TEST_P(RenamedTasks, ThatAreNotThereAreNamed) {
  const std::string nobody = test::free_addresses(1)[0];
  const Tensor x = placeholder(kFloat32, {});
  auto on = device("/job:store/task:0");
  const Tensor y = neg(x);
  Session session(first_.target(),
                  {.timeout = std::chrono::seconds(2),
                   .cluster = ClusterSpec{{"trainer", {address(first_)}}, {"store", {nobody}}}});
  EXPECT_ERROR(Code::Unavailable, "/job:store/replica:0/task:0 at " + nobody,
               session.run(y, {{x, Tensor(1.f)}}));
}

INSTANTIATE_TEST_SUITE_P(Ways, RenamedTasks, testing::Values("in-process", "shared-memory", "grpc"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace cohort
