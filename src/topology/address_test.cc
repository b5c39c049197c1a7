#include "topology/address.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

TEST(Address, IsCutAtTheLastColon) {
  EXPECT_EQ(parse_address("localhost:2222"), (HostPort{"localhost", 2222}));
  EXPECT_EQ(parse_address("[fe80::1]:90"), (HostPort{"fe80::1", 90}));
  EXPECT_EQ(parse_address("host:0"), (HostPort{"host", 0}));
  EXPECT_EQ(address_text("fe80::1", 90), "[fe80::1]:90");
  EXPECT_EQ(address_text("host", 90), "host:90");
}

TEST(Address, WithoutAPortOrWithABadOneIsRefused) {
  EXPECT_ERROR(Code::InvalidArgument, "no port", parse_address("localhost"));
  EXPECT_ERROR(Code::InvalidArgument, "the port ''", parse_address("localhost:"));
  EXPECT_ERROR(Code::InvalidArgument, "the port 'http'", parse_address("localhost:http"));
  EXPECT_ERROR(Code::InvalidArgument, "the port '65536'", parse_address("localhost:65536"));
  EXPECT_ERROR(Code::InvalidArgument, "the port '-1'", parse_address("localhost:-1"));
  EXPECT_ERROR(Code::InvalidArgument, "no host", parse_address(":80"));
}

TEST(Address, PortsEndAt65535) {
  EXPECT_EQ(port_at(8888, 2, "Slurm"), 8890);
  EXPECT_ERROR(Code::InvalidArgument, "[Slurm]", port_at(65535, 1, "Slurm"));
  EXPECT_ERROR(Code::InvalidArgument, "[Slurm]", port_at(0, 0, "Slurm"));
}

TEST(Address, AClusterSpansHostsUnlessAllTasksAreOnLoopback) {
  EXPECT_FALSE(spans_hosts(ClusterSpec()));
  EXPECT_FALSE(spans_hosts({{"w", {"localhost:1", "127.0.0.1:2", "127.1.2.3:4", "[::1]:5"}}}));
  EXPECT_TRUE(spans_hosts({{"w", {"localhost:1", "10.0.0.1:1"}}}));
  EXPECT_TRUE(spans_hosts({{"w", {"localhost.example.org:1"}}}));
}

TEST(Target, NamesAServerOrThisProcess) {
  EXPECT_FALSE(parse_target("").has_value());
  EXPECT_EQ(parse_target("grpc://h:1")->protocol, "grpc");
  EXPECT_EQ(parse_target("grpc://h:1")->address, (HostPort{"h", 1}));
  EXPECT_EQ(parse_target("grpc+verbs://h:1")->protocol, "grpc+verbs");
  EXPECT_EQ(parse_target("h:1")->protocol, "grpc");
  EXPECT_EQ(parse_target("h:1")->address, (HostPort{"h", 1}));
  for (const char* bad : {"local", "grpc://", "://h:1", "grpc://h", "grpc://h:1/x", "a b:1"}) {
    EXPECT_ERROR(Code::NotFound, "is not a target", parse_target(bad));
  }
  EXPECT_ERROR(Code::InvalidArgument, "the port 'x'", parse_target("grpc://h:x"));
}

}  // namespace
}  // namespace cohort::internal
