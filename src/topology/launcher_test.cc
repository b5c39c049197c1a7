#include <gtest/gtest.h>

#include "cohort/scheduler_resolvers.h"
#include "support/expect_error.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using Variables = ScopedEnvironment::Variables;

struct Place {
  std::string rank, world_size, local_rank, local_size;
};

Variables open_mpi(const Place& place) {
  return {{"OMPI_COMM_WORLD_RANK", place.rank},
          {"OMPI_COMM_WORLD_SIZE", place.world_size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", place.local_rank},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", place.local_size}};
}

Variables torchrun(const Place& place) {
  return {{"RANK", place.rank},
          {"WORLD_SIZE", place.world_size},
          {"LOCAL_RANK", place.local_rank},
          {"LOCAL_WORLD_SIZE", place.local_size},
          {"MASTER_ADDR", "127.0.0.1"}};
}

// No variable of any launcher, however the test was started.
Variables nothing() {
  Variables variables = open_mpi({});
  variables.merge(torchrun({}));
  for (const char* name :
       {"TF_CONFIG", "SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_TASKS_PER_NODE", "SM_HOSTS", "SM_CURRENT_HOST", "CUDA_VISIBLE_DEVICES"}) {
    variables[name] = std::nullopt;
  }
  for (auto& [name, value] : variables) value = std::nullopt;
  return variables;
}

TEST(OpenMpiClusterResolver, OnOneHostNeedsOnlyTheVariables) {
  const ScopedEnvironment environment(open_mpi({"1", "3", "1", "3"}));
  const OpenMpiClusterResolver resolver({.jobs = {{"worker", 2}, {"ps", 1}}});
  EXPECT_EQ(
      resolver.cluster_spec(),
      ClusterSpec({{"ps", {"localhost:8888"}}, {"worker", {"localhost:8889", "localhost:8890"}}}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 0);
  EXPECT_EQ(resolver.master(), "grpc://localhost:8889");
}

TEST(TorchrunClusterResolver, OnOneHostNeedsOnlyTheVariables) {
  const ScopedEnvironment environment(torchrun({"1", "2", "1", "2"}));
  const TorchrunClusterResolver resolver({.port_base = 9000});
  EXPECT_EQ(resolver.cluster_spec(),
            ClusterSpec({{"worker", {"127.0.0.1:9000", "127.0.0.1:9001"}}}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
}

TEST(LauncherResolvers, OnSeveralHostsFollowTheHostfile) {
  const TemporaryFile hosts("a slots=2\nb slots=4\nc\n");
  const ClusterSpec expected{{"worker", {"a:8888", "a:8889", "b:8888"}}};
  {
    const ScopedEnvironment environment(open_mpi({"1", "3", "1", "2"}));
    const OpenMpiClusterResolver resolver({.hostfile = hosts.path()});
    EXPECT_EQ(resolver.cluster_spec(), expected);
    EXPECT_EQ(resolver.task_id(), 1);
  }
  const ScopedEnvironment environment(torchrun({"2", "3", "0", "1"}));
  const TorchrunClusterResolver resolver({.hostfile = hosts.path()});
  EXPECT_EQ(resolver.cluster_spec(), expected);
  EXPECT_EQ(resolver.task_id(), 2);
}

TEST(LauncherResolvers, SayWhichVariableIsMissing) {
  for (const auto& [name, value] : open_mpi({})) {
    Variables variables = open_mpi({"0", "1", "0", "1"});
    variables[name] = std::nullopt;
    const ScopedEnvironment environment(variables);
    EXPECT_ERROR(Code::FailedPrecondition, name, OpenMpiClusterResolver());
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    Variables variables = torchrun({"0", "1", "0", "1"});
    variables[name] = std::nullopt;
    const ScopedEnvironment environment(variables);
    EXPECT_ERROR(Code::FailedPrecondition, name, TorchrunClusterResolver());
  }
}

TEST(LauncherResolvers, RefuseWhatDoesNotFitTogether) {
  const TemporaryFile hosts("a slots=2\nb slots=2\n");
  const struct {
    Place place;
    std::string hostfile;
    Code code;
    const char* message;
  } kCases[] = {
      {{"x", "1", "0", "1"}, "", Code::InvalidArgument, "RANK is 'x'"},
      {{"2", "2", "0", "2"}, "", Code::InvalidArgument, "do not fit together: rank 2 of 2"},
      {{"0", "0", "0", "0"}, "", Code::InvalidArgument, "do not fit together"},
      {{"0", "2", "2", "2"}, "", Code::InvalidArgument, "do not fit together"},
      {{"0", "2", "0", "3"}, "", Code::InvalidArgument, "do not fit together"},
      {{"0", "4", "0", "2"}, "", Code::FailedPrecondition, "give the hostfile"},
      {{"0", "5", "0", "2"},
       hosts.path(),
       Code::FailedPrecondition,
       "has 4 slots, but there are 5"},
      {{"1", "4", "0", "2"}, hosts.path(), Code::FailedPrecondition, "slot by slot"},
      {{"0", "4", "0", "4"}, hosts.path(), Code::FailedPrecondition, "slot by slot"},
      {{"0", "4", "0", "2"}, "/no/file", Code::NotFound, "/no/file"},
  };
  for (const auto& bad : kCases) {
    SCOPED_TRACE(bad.message);
    const ScopedEnvironment environment(torchrun(bad.place));
    EXPECT_ERROR(bad.code, bad.message, TorchrunClusterResolver({.hostfile = bad.hostfile}));
    const ScopedEnvironment same(open_mpi(bad.place));
    EXPECT_ERROR(bad.code, bad.message, OpenMpiClusterResolver({.hostfile = bad.hostfile}));
  }
}

TEST(ResolverFromEnvironment, ChoosesByWhatIsSet) {
  ScopedEnvironment environment(nothing());
  EXPECT_FALSE(resolver_from_environment()->cluster_spec());
  const auto set_all = [&](const Variables& variables) {
    for (const auto& [name, value] : variables) environment.set(name, value);
    return resolver_from_environment()->cluster_spec();
  };
  EXPECT_EQ(set_all({{"SM_HOSTS", R"(["s"])"}, {"SM_CURRENT_HOST", "s"}}),
            ClusterSpec({{"worker", {"s:2223"}}}));
  EXPECT_EQ(set_all(torchrun({"0", "1", "0", "1"})), ClusterSpec({{"worker", {"127.0.0.1:8888"}}}));
  EXPECT_EQ(set_all(open_mpi({"0", "1", "0", "1"})), ClusterSpec({{"worker", {"localhost:8888"}}}));
  EXPECT_EQ(set_all({{"SLURM_PROCID", "0"},
                     {"SLURM_STEP_NODELIST", "n1"},
                     {"SLURM_STEP_NUM_TASKS", "1"},
                     {"SLURM_STEP_TASKS_PER_NODE", "1"}}),
            ClusterSpec({{"worker", {"n1:8888"}}}));
  EXPECT_EQ(resolver_from_environment()->task_type(), "worker");
  EXPECT_EQ(set_all({{"TF_CONFIG", R"({"cluster": {"worker": ["t:1"]}})"}}),
            ClusterSpec({{"worker", {"t:1"}}}));
}

}  // namespace
}  // namespace cohort
