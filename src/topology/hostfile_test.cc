#include <gtest/gtest.h>

#include "cohort/scheduler_resolvers.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"
#include "topology/resolver_inputs.h"

namespace cohort {
namespace {

using internal::HostSlots;
using internal::parse_hostfile;

TEST(Hostfile, ReadsEveryFormOfALine) {
  const char* text =
      "# our machines\n"
      "n1\n"
      "  n2 slots=4   # the large one\r\n"
      "\n"
      "n3:2\n"
      "10.0.0.4\tslots=2 max_slots=8\n"
      "fe80::1";
  EXPECT_EQ(
      parse_hostfile(text, "f"),
      (std::vector<HostSlots>{{"n1", 1}, {"n2", 4}, {"n3", 2}, {"10.0.0.4", 2}, {"fe80::1", 1}}));
}

TEST(Hostfile, WhatCannotBeReadNamesTheLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "names no hosts"},
      {"# nothing\n\n", "names no hosts"},
      {"a\nb slots=x\n", "line 2 of 'f' is 'b slots=x': 'x' is not a number of slots"},
      {"a slots=", "'' is not a number of slots"},
      {"a slots=0", "'0' is not a number of slots"},
      {"a slots=-1", "'-1' is not a number of slots"},
      {"a slots=99999999999", "is not a number of slots"},
      {"a slots=70000", "is not a number of slots"},
      {"a slots = 4", "'slots' has no meaning"},
      {"a 4", "'4' has no meaning"},
      {"a slots=2 slots=4", "the line gives the number of slots twice"},
      {"a:2 slots=4", "the line gives the number of slots twice"},
      {"a, b", "not the name of a host"},
      {"a:", "'' is not a number of slots"},
      {"a:x", "'x' is not a number of slots"},
      {":4", "not the name of a host"},
      {"a/b", "not the name of a host"},
      {"a\nb\na slots=2", "line 3 of 'f' is 'a slots=2': an earlier line names the same host"},
      {"user@a", "not the name of a host"},
      {"a\x01", "not the name of a host"},
  };
  for (const auto& [text, message] : kCases) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(Code::InvalidArgument, message, parse_hostfile(text, "f"));
  }
}

TEST(HostfileClusterResolver, MakesATaskOfEverySlotInTheFilesOrder) {
  const TemporaryFile file("b slots=2\na\nfe80::1\n");
  HostfileClusterResolver resolver(file.path(), {.jobs = {{"worker", 3}, {"ps", 1}}, .rank = 2});
  EXPECT_EQ(resolver.cluster_spec(),
            ClusterSpec({{"ps", {"b:8888"}}, {"worker", {"b:8889", "a:8888", "[fe80::1]:8888"}}}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.master(), "grpc://a:8888");
  resolver.set_task_id(0);
  EXPECT_EQ(resolver.master(), "grpc://b:8889");
}

TEST(HostfileClusterResolver, WithoutARankDoesNotKnowItsTask) {
  const TemporaryFile file("a\nb\n");
  const HostfileClusterResolver resolver(file.path(), {.port_base = 100, .rpc_layer = {}});
  EXPECT_EQ(resolver.task_type(), std::nullopt);
  EXPECT_EQ(resolver.master(), "");
  EXPECT_EQ(resolver.master("worker", 1), "b:100");
}

TEST(HostfileClusterResolver, RefusesWhatDoesNotFit) {
  const TemporaryFile file("a\nb\n");
  EXPECT_ERROR(Code::NotFound, "/no/such/file", HostfileClusterResolver("/no/such/file"));
  EXPECT_ERROR(Code::NotFound, "/tmp", HostfileClusterResolver("/tmp"));
  EXPECT_ERROR(Code::FailedPrecondition, "process 2, but there are only 2",
               HostfileClusterResolver(file.path(), {.rank = 2}));
  EXPECT_ERROR(Code::FailedPrecondition, "need 1 tasks, but 2 were started",
               HostfileClusterResolver(file.path(), {.jobs = {{"worker", 1}}}));
}

}  // namespace
}  // namespace cohort
