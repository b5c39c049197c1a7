// The chief's own way to its parameter servers.

#include "coordinator/parameter_servers.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/relay.h"
#include "support/scoped_environment.h"
#include "topology/address.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Heartbeats go on: a server tells its own address, and they do not take the relay.
TEST(ParameterServers, GiveUpAnUpdateWhoseConnectionIsCutAndMakeTheNext) {
  const ScopedEnvironment by_sockets(ScopedEnvironment::Variables{{"COHORT_TRANSPORT", "grpc"}});
  const test::LocalCluster cluster(1, 0);
  test::Relay relay(internal::parse_address(cluster.spec().task_address("ps", 0)).port);
  internal::ParameterServers servers(
      ClusterSpec(std::map<std::string, TaskList>{{"ps", TaskList{relay.address()}}}),
      {.container = "cut", .silence_limit = milliseconds(200)});
  servers.take_over();
  const internal::GroupUpdate update{
      .name = "update",
      .home = servers.device(0),
      .function = internal::trace(
          "update", {}, [](std::span<const Tensor>) { return std::vector<Tensor>{ones({2})}; })};
  servers.make(update, Tensor({int64_t{1}, int64_t{1}, int64_t{0}}));
  relay.cut();
  const auto start = steady_clock::now();
  EXPECT_ERROR(Code::Unavailable, "took longer than 200 ms",
               servers.make(update, Tensor({int64_t{1}, int64_t{2}, int64_t{0}})));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
  servers.make(update, Tensor({int64_t{1}, int64_t{2}, int64_t{0}}));
}

}  // namespace
}  // namespace cohort
