// Servers with certificates and a token, and who is not let in: nothing of what they ask for
// happens.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "rpc/certificates.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class RefusedSession : public testing::Test {
 protected:
  RefusedSession() { serve("worker", authority_); }
  ~RefusedSession() override { EXPECT_TRUE(servers_.front()->status().sessions.empty()); }

  void serve(const std::string& job, const internal::RunAuthority& authority) {
    const std::string name = "/job:" + job + "/replica:0/task:0";
    servers_.push_back(std::make_unique<Server>(
        cluster_, ServerTask{.job_name = job, .task_index = 0},
        ServerOptions{.credentials = authority.issue({.name = name, .token = kToken})}));
  }
  Credentials client(internal::CertificateRequest request = {}) const {
    request.token = kToken;
    return authority_.issue(request);
  }
  // What becomes of a session on the worker, and a run on the ps.
  Status outcome(const Credentials& credentials) {
    Graph graph;
    const auto building = graph.as_default();
    const Tensor x = placeholder(kFloat32, {});
    const auto on = device("/job:ps/task:0");
    const Tensor y = neg(x);
    return error_of([&] {
      Session session(graph, servers_.front()->target(),
                      {.timeout = std::chrono::seconds(5), .credentials = credentials});
      session.run(y, {{x, Tensor(1.f)}});
    });
  }
  static void expect(Code code, const std::string& fragment, const Status& status) {
    EXPECT_EQ(status.code, code) << status;
    EXPECT_NE(status.to_string().find(fragment), std::string::npos) << status;
  }

  const ScopedEnvironment way_{{{"COHORT_TRANSPORT", "grpc"}}};
  const internal::RunAuthority authority_;
  const ClusterSpec cluster_ = test::free_cluster(1, 1);
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST_F(RefusedSession, IsOpenedWithTheRightCredentials) {
  serve("ps", authority_);
  const Status status = outcome(client());
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(RefusedSession, HasNoCertificate) {
  expect(Code::Unauthenticated, "demands certificates", outcome(Credentials{.token = kToken}));
}

TEST_F(RefusedSession, HasOneOfAnotherAuthority) {
  Credentials theirs = internal::RunAuthority().issue({.token = kToken});
  expect(Code::Unauthenticated, "was not signed by this side's authority", outcome(theirs));
  theirs.authority = client().authority;  // it believes the server
  expect(Code::Unauthenticated, "refused this side's certificate", outcome(theirs));
}

TEST_F(RefusedSession, HasOneThatHasExpired) {
  const Status status = outcome(client({.valid_to_seconds = -60}));
  EXPECT_TRUE(status.code == Code::FailedPrecondition || status.code == Code::Unauthenticated)
      << status;
  EXPECT_NE(status.message.find("certificate"), std::string::npos) << status;
}

TEST_F(RefusedSession, HasAnotherToken) {
  Credentials wrong = client();
  wrong.token.back() = 'x';
  expect(Code::Unauthenticated, "token", outcome(wrong));
  wrong.token.clear();
  expect(Code::Unauthenticated, "token", outcome(wrong));
}

TEST_F(RefusedSession, IsAServerUnderAnotherTasksName) {
  EXPECT_ERROR(Code::PermissionDenied, "/job:ps/replica:0/task:0",
               Server(cluster_, {.job_name = "ps", .task_index = 0},
                      {.credentials = client({.name = "/job:worker/replica:0/task:0"})}));
}

// The task is there, and the master says why it does not count.
TEST_F(RefusedSession, NamesATaskOfAnotherAuthority) {
  serve("ps", internal::RunAuthority());
  const Status status = outcome(client());
  expect(Code::Unauthenticated, "/job:ps/replica:0/task:0", status);
  expect(Code::Unauthenticated, "certificate", status);
}

}  // namespace
}  // namespace cohort
