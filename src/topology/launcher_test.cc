#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cohort/scheduler_resolvers.h"
#include "support/expect_error.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"
#include "topology/resolver_inputs.h"

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

Variables pmi(const Place& place) {
  return {{"PMI_RANK", place.rank},
          {"PMI_SIZE", place.world_size},
          {"MPI_LOCALRANKID", place.local_rank},
          {"MPI_LOCALNRANKS", place.local_size}};
}

Variables slurm_step(const std::string& rank, const std::string& tasks) {
  return {{"SLURM_PROCID", rank},
          {"SLURM_STEP_NUM_TASKS", tasks},
          {"SLURM_STEP_NODELIST", "n1"},
          {"SLURM_STEP_TASKS_PER_NODE", tasks}};
}

// No variable of any launcher, however the test was started.
Variables nothing() {
  Variables variables = open_mpi({});
  variables.merge(torchrun({}));
  variables.merge(pmi({}));
  variables.merge(slurm_step("", ""));
  for (const char* name :
       {"TF_CONFIG", "SM_HOSTS", "SM_CURRENT_HOST", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID",
        "SLURM_STEP_ID", "PMIX_RANK", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_ID",
        "PMI_FD", "PMI_JOBID", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}) {
    variables[name] = std::nullopt;
  }
  for (auto& [name, value] : variables) value = std::nullopt;
  return variables;
}

// The environment of a process that was started alone, then with these.
class Environment {
 public:
  explicit Environment(const Variables& variables = {}) : scope_(nothing()) { set(variables); }
  void set(const Variables& variables) {
    for (const auto& [name, value] : variables) scope_.set(name, value);
  }

 private:
  ScopedEnvironment scope_;
};

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
  for (const char* name : {"PMI_RANK", "PMI_SIZE"}) {
    Variables variables = pmi({"0", "1", "0", "1"});
    variables[name] = std::nullopt;
    const ScopedEnvironment environment(variables);
    EXPECT_ERROR(Code::FailedPrecondition, name, PmiClusterResolver());
  }
  for (const char* name : {"RANK", "WORLD_SIZE"}) {
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
      {{"2", "2", "0", "2"}, "", Code::InvalidArgument, "contradict each other: rank 2 of 2"},
      {{"0", "0", "0", "0"}, "", Code::InvalidArgument, "contradict each other"},
      {{"0", "2", "2", "2"}, "", Code::InvalidArgument, "contradict each other"},
      {{"0", "2", "0", "3"}, "", Code::InvalidArgument, "contradict each other"},
      {{"0", "4", "0", "2"}, "", Code::FailedPrecondition, "give the hostfile to a "},
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
    const ScopedEnvironment again(pmi(bad.place));
    EXPECT_ERROR(bad.code, bad.message, PmiClusterResolver({.hostfile = bad.hostfile}));
  }
}

// A hostname that is not this host's.
constexpr const char* kElsewhere = "elsewhere.invalid";

std::string this_host() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

TEST(TorchrunClusterResolver, NeedsNoLocalVariablesWhereTheProcessesMeetOnThisHost) {
  for (const std::optional<std::string>& master :
       {std::optional<std::string>("127.0.0.1"), std::optional<std::string>(this_host()),
        std::optional<std::string>()}) {
    const Environment environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", master}});
    const TorchrunClusterResolver resolver;
    const std::string host = master == "127.0.0.1" ? "127.0.0.1" : "localhost";
    EXPECT_EQ(resolver.cluster_spec(), ClusterSpec({{"worker", {host + ":8888", host + ":8889"}}}));
    EXPECT_EQ(resolver.task_id(), 1);
  }
}

TEST(TorchrunClusterResolver, WithoutLocalVariablesSaysWhatIsMissingForOtherHosts) {
  Environment environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", kElsewhere}});
  EXPECT_ERROR(Code::FailedPrecondition, "LOCAL_WORLD_SIZE", TorchrunClusterResolver());
  environment.set({{"MASTER_ADDR", "localhost"}, {"LOCAL_RANK", "0"}});
  EXPECT_ERROR(Code::FailedPrecondition, "LOCAL_WORLD_SIZE", TorchrunClusterResolver());
  const TemporaryFile hosts("a\nb\n");
  EXPECT_EQ(TorchrunClusterResolver({.hostfile = hosts.path()}).cluster_spec(),
            ClusterSpec({{"worker", {"a:8888", "b:8888"}}}));
}

TEST(PmiClusterResolver, OnOneHostNeedsOnlyTheVariables) {
  Environment environment(pmi({"1", "2", "1", "2"}));
  const PmiClusterResolver resolver;
  EXPECT_EQ(resolver.cluster_spec(),
            ClusterSpec({{"worker", {"localhost:8888", "localhost:8889"}}}));
  EXPECT_EQ(resolver.task_id(), 1);
  environment.set({{"MPI_LOCALNRANKS", std::nullopt}});
  EXPECT_ERROR(Code::FailedPrecondition, "MPI_LOCALNRANKS", PmiClusterResolver());
}

ClusterSpec found() { return resolver_from_environment()->cluster_spec(); }

int first_port() {
  const std::string address = found().task_address("worker", 0);
  return std::stoi(address.substr(address.rfind(':') + 1));
}

// The ports of one job, and of another one, whose variables differ in what names the job.
void expect_ports_of_their_own(Variables job, const Variables& other) {
  Environment environment(job);
  const int port = first_port();
  EXPECT_EQ(first_port(), port);
  EXPECT_GE(port, 10'000);
  EXPECT_LT(port, 32'768);
  environment.set(other);
  EXPECT_NE(first_port(), port);
}

TEST(LauncherResolvers, TwoJobsOnOneHostHavePortsOfTheirOwn) {
  Variables job = slurm_step("0", "2");
  job["SLURM_JOB_ID"] = "4711";
  job["SLURM_STEP_ID"] = "0";
  expect_ports_of_their_own(job, {{"SLURM_JOB_ID", "4712"}});
  expect_ports_of_their_own(job, {{"SLURM_STEP_ID", "1"}});
  job = open_mpi({"0", "2", "0", "2"});
  job["PMIX_NAMESPACE"] = "921894913";
  expect_ports_of_their_own(job, {{"PMIX_NAMESPACE", "prterun-host-17@1"}});
  job = open_mpi({"0", "2", "0", "2"});
  job["OMPI_MCA_ess_base_jobid"] = "921894913";
  expect_ports_of_their_own(job, {{"OMPI_MCA_ess_base_jobid", "921894914"}});
  job = torchrun({"0", "2", "0", "2"});
  job["MASTER_PORT"] = "29500";
  job["TORCHELASTIC_RUN_ID"] = "none";
  expect_ports_of_their_own(job, {{"MASTER_PORT", "29501"}});
  expect_ports_of_their_own(job, {{"TORCHELASTIC_RUN_ID", "618e4001"}});
  job = pmi({"0", "2", "0", "2"});
  job["PMI_JOBID"] = "4711.0";
  expect_ports_of_their_own(job, {{"PMI_JOBID", "4711.1"}});
}

TEST(LauncherResolvers, APortThatIsGivenIsTheOne) {
  const Environment environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(TorchrunClusterResolver({.port_base = 9000}).cluster_spec(),
            ClusterSpec({{"worker", {"localhost:9000"}}}));
}

// MPICH's mpiexec holds the other end of each process's socket.
TEST(PmiClusterResolver, KnowsAJobByTheProcessThatStartedIt) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Environment environment(pmi({"0", "2", "0", "2"}));
  EXPECT_EQ(first_port(), 8888);
  environment.set({{"PMI_FD", std::to_string(ends[0])}});
  EXPECT_NE(first_port(), 8888);
  environment.set({{"PMI_FD", "no number"}});
  EXPECT_EQ(first_port(), 8888);
  close(ends[0]);
  close(ends[1]);
}

TEST(ResolverFromEnvironment, ChoosesByWhatIsSet) {
  Environment environment;
  EXPECT_FALSE(found());
  const auto set_all = [&](const Variables& variables) {
    environment.set(variables);
    return found();
  };
  EXPECT_EQ(set_all({{"SM_HOSTS", R"(["s"])"}, {"SM_CURRENT_HOST", "s"}}),
            ClusterSpec({{"worker", {"s:2223"}}}));
  EXPECT_EQ(set_all(pmi({"0", "1", "0", "1"})), ClusterSpec({{"worker", {"localhost:8888"}}}));
  EXPECT_EQ(set_all(torchrun({"0", "2", "0", "2"})),
            ClusterSpec({{"worker", {"127.0.0.1:8888", "127.0.0.1:8889"}}}));
  EXPECT_EQ(set_all(open_mpi({"0", "2", "0", "2"})),
            ClusterSpec({{"worker", {"localhost:8888", "localhost:8889"}}}));
  EXPECT_EQ(set_all(slurm_step("0", "2")), ClusterSpec({{"worker", {"n1:8888", "n1:8889"}}}));
  EXPECT_EQ(resolver_from_environment()->task_type(), "worker");
  EXPECT_EQ(set_all({{"TF_CONFIG", R"({"cluster": {"worker": ["t:1"]}})"}}),
            ClusterSpec({{"worker", {"t:1"}}}));
}

TEST(ResolverFromEnvironment, ALauncherInsideAJobStepOfSlurmCounts) {
  Environment environment(slurm_step("0", "1"));
  environment.set(open_mpi({"1", "2", "1", "2"}));
  EXPECT_EQ(found(), ClusterSpec({{"worker", {"localhost:8888", "localhost:8889"}}}));
  EXPECT_EQ(resolver_from_environment()->task_id(), 1);
}

TEST(ResolverFromEnvironment, InsideABatchScriptTheProcessIsAlone) {
  const Environment environment({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "4711"}});
  EXPECT_FALSE(found());
}

TEST(ResolverFromEnvironment, ATfConfigWithoutAClusterHidesNoLauncher) {
  Environment environment(torchrun({"0", "2", "0", "2"}));
  environment.set({{"TF_CONFIG", "{}"}});
  EXPECT_EQ(found().num_tasks("worker"), 2);
}

TEST(ResolverFromEnvironment, WhatIsIncompleteIsAnErrorThatNamesTheVariables) {
  const struct {
    Variables variables;
    const char* message;
  } kCases[] = {
      {{{"WORLD_SIZE", "4"}}, "WORLD_SIZE is set, but RANK is not"},
      {{{"RANK", "1"}}, "RANK is set, but WORLD_SIZE is not"},
      {{{"LOCAL_RANK", "1"}}, "LOCAL_RANK is set, but RANK is not"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}}, "but OMPI_COMM_WORLD_RANK is not"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
       "OMPI_COMM_WORLD_LOCAL_RANK"},
      {{{"PMI_ID", "1"}, {"MPI_LOCALNRANKS", "2"}}, "but PMI_RANK is not"},
      {{{"PMIX_RANK", "0"}}, "PMIX_RANK is set"},
      {{{"SLURM_STEP_NUM_TASKS", "2"}}, "but SLURM_PROCID is not"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NODELIST", "a"}}, "but SLURM_STEP_NUM_TASKS is not"},
  };
  for (const auto& bad : kCases) {
    SCOPED_TRACE(bad.message);
    const Environment environment(bad.variables);
    EXPECT_ERROR(Code::FailedPrecondition, bad.message, resolver_from_environment());
  }
}

TEST(ResolverFromEnvironment, LaunchersThatDisagreeAreAnErrorThatNamesBoth) {
  Environment environment(open_mpi({"1", "4", "1", "4"}));
  environment.set(torchrun({"0", "2", "0", "2"}));
  EXPECT_ERROR(Code::FailedPrecondition, "OMPI_COMM_WORLD_RANK=1", resolver_from_environment());
  EXPECT_ERROR(Code::FailedPrecondition, "WORLD_SIZE=2", resolver_from_environment());
  environment.set(torchrun({"0", "1", "0", "1"}));  // says nothing of others
  EXPECT_EQ(found().num_tasks("worker"), 4);
  environment.set(torchrun({"1", "4", "1", "4"}));  // says the same
  EXPECT_EQ(found().num_tasks("worker"), 4);
}

TEST(LaunchOfSeveral, IsNoticedByWhateverNamesSeveralProcesses) {
  Environment environment;
  EXPECT_FALSE(internal::launch_of_several());
  environment.set(torchrun({"0", "1", "0", "1"}));
  EXPECT_FALSE(internal::launch_of_several());
  environment.set(torchrun({"0", "2", "0", "2"}));
  EXPECT_EQ(internal::launch_of_several()->processes, 2);
  EXPECT_EQ(internal::launch_of_several()->launcher, "torchrun (RANK, WORLD_SIZE)");
  environment.set({{"TF_CONFIG", R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]},
                                     "task": {"type": "worker", "index": 0}})"}});
  EXPECT_EQ(internal::launch_of_several()->processes, 3);
  environment.set({{"TF_CONFIG", R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]},
                                     "task": {"type": "evaluator", "index": 0}})"}});
  EXPECT_FALSE(internal::launch_of_several());
}

TEST(LaunchOfSeveral, IsNoticedOnSageMaker) {
  Environment environment({{"SM_HOSTS", R"(["s"])"}, {"SM_CURRENT_HOST", "s"}});
  EXPECT_FALSE(internal::launch_of_several());
  environment.set({{"SM_HOSTS", ""}});  // as good as not set
  EXPECT_FALSE(internal::launch_of_several());
  environment.set({{"SM_HOSTS", R"(["s", "t"])"}});
  EXPECT_EQ(internal::launch_of_several()->processes, 2);
  EXPECT_EQ(internal::launch_of_several()->launcher, "SageMaker (SM_HOSTS)");
}

TEST(LaunchOfSeveral, IsAnErrorWhereTheResolverThrows) {
  for (const Variables& variables :
       {Variables{{"PMIX_RANK", "0"}}, Variables{{"SM_HOSTS", "no list"}},
        Variables{{"WORLD_SIZE", "2"}}}) {
    const Environment environment(variables);
    EXPECT_THROW(resolver_from_environment(), Error);
    EXPECT_THROW(internal::launch_of_several(), Error);
  }
}

}  // namespace
}  // namespace cohort
