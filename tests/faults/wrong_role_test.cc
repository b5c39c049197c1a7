// One program, every role: what it says when TF_CONFIG is JSON, but not of a cluster that it can be
// a task of. Texts that are no TF_CONFIG at all are in src/topology.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

// What a program does that is started for every role.
void serve_role() {
  const TFConfigClusterResolver resolver;
  const Server server(resolver.cluster_spec(),
                      {.job_name = resolver.task_type(), .task_index = resolver.task_id()});
}

std::string config(const std::string& cluster, const std::string& task) {
  return R"({"cluster": )" + cluster + R"(, "task": )" + task + "}";
}

constexpr char kTwoWorkers[] =
    R"({"ps": ["localhost:0"], "worker": ["localhost:0", "localhost:0"]})";
constexpr char kWorker0[] = R"({"type": "worker", "index": 0})";

struct WrongRole {
  std::string text;
  Code code;
  const char* message;
};

std::vector<WrongRole> wrong_roles() {
  std::vector<WrongRole> all{
      {"{}", Code::InvalidArgument, "job"},
      {config("{}", kWorker0), Code::Internal, "worker"},
      {config(R"({"worker": []})", kWorker0), Code::InvalidArgument, "task 0"},
      {config(R"({"ps": ["localhost:0"]})", kWorker0), Code::Internal, "worker"},
      {config(R"({"Worker": ["localhost:0"]})", kWorker0), Code::Internal, "worker"},
      {config(R"({"worker": {"1": "localhost:0"}})", kWorker0), Code::InvalidArgument, "task 0"},
      {config(kTwoWorkers, "{}"), Code::InvalidArgument, "job"},
      {config(kTwoWorkers, R"({"type": "worker"})"), Code::InvalidArgument, "task"},
      {config(kTwoWorkers, R"({"index": 0})"), Code::InvalidArgument, "job"},
      {config(kTwoWorkers, R"({"type": "worker", "index": 2})"), Code::InvalidArgument, "task 2"},
      {config(kTwoWorkers, R"({"type": "ps", "index": 1})"), Code::InvalidArgument, "task 1"},
      {config(kTwoWorkers, R"({"type": "chief", "index": 0})"), Code::Internal, "chief"},
      {config(kTwoWorkers, R"({"type": "WORKER", "index": 0})"), Code::Internal, "WORKER"},
  };
  for (const char* address :
       {"localhost", "localhost:", ":2222", "localhost:http", "localhost:99999", "localhost:-1",
        "localhost:2222x", "localhost:0x50", "[::1]", "grpc://localhost"}) {
    all.push_back({config(R"({"worker": [")" + std::string(address) + R"("]})", kWorker0),
                   Code::InvalidArgument, address});
  }
  // Nobody has allowed it to listen to the world.
  for (const char* address : {"0.0.0.0:2222", "203.0.113.7:2222", "no-such-host.invalid:2222"}) {
    all.push_back({config(R"({"worker": [")" + std::string(address) + R"("]})", kWorker0),
                   Code::FailedPrecondition, "insecure"});
  }
  return all;
}

TEST(WrongRole, IsToldWithoutWaiting) {
  for (const WrongRole& wrong : wrong_roles()) {
    SCOPED_TRACE(wrong.text);
    const ScopedEnvironment environment({{"TF_CONFIG", wrong.text}});
    EXPECT_ERROR(wrong.code, wrong.message, serve_role());
  }
}

TEST(WrongRole, OfATaskThatRunsAlreadyIsToldToo) {
  const std::string address = test::free_addresses(1)[0];
  const ScopedEnvironment environment(
      {{"TF_CONFIG", config(R"({"worker": [")" + address + R"("]})", kWorker0)}});
  const Server first(ClusterSpec{{"worker", {address}}});
  EXPECT_ERROR(Code::Unknown, address.substr(address.find(':') + 1), serve_role());
}

}  // namespace
}  // namespace cohort
