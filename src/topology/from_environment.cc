#include <algorithm>
#include <array>
#include <utility>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/resolver_inputs.h"

namespace cohort {
namespace {

using internal::raise;
using Resolver = std::shared_ptr<ClusterResolver>;

constexpr const char* kEnvironment = "ClusterResolver";

bool is_set(const char* name) { return internal::environment_variable(name).has_value(); }

template <typename Kind>
Resolver make() {
  return std::make_shared<Kind>();
}

struct Launcher {
  const char* name;
  const char* rank;  // names of variables
  const char* size;
  std::vector<const char*> others;  // each shows that the launcher started this process
  Resolver (*make)();
};

const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> all = {
      {"Open MPI's mpirun",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
       make<OpenMpiClusterResolver>},
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
       make<TorchrunClusterResolver>},
      {"a launcher with PMI",
       "PMI_RANK",
       "PMI_SIZE",
       {"PMI_ID", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
       make<PmiClusterResolver>},
  };
  return all;
}

// What a launcher says of this process.
struct Claim {
  const Launcher* launcher;
  int rank;
  int size;

  bool same_place(const Claim& other) const { return rank == other.rank && size == other.size; }
  std::string to_string() const {
    return fmt::format("{}={}, {}={} of {}", launcher->rank, rank, launcher->size, size,
                       launcher->name);
  }
};

[[noreturn]] void raise_incomplete(const Launcher& launcher) {
  std::vector<const char*> all = {launcher.rank, launcher.size};
  all.insert(all.end(), launcher.others.begin(), launcher.others.end());
  const char* const found = *std::ranges::find_if(all, is_set);
  raise(Code::FailedPrecondition,
        "[{}] {} is set, but {} is not: {} sets both {} and {} for each process; set what is "
        "missing, unset what is left over, or describe the cluster in TF_CONFIG",
        kEnvironment, found, is_set(launcher.rank) ? launcher.size : launcher.rank, launcher.name,
        launcher.rank, launcher.size);
}

std::optional<Claim> claim_of(const Launcher& launcher) {
  if (is_set(launcher.rank) && is_set(launcher.size)) {
    return Claim{&launcher, internal::require_number(launcher.rank, kEnvironment),
                 internal::require_number(launcher.size, kEnvironment)};
  }
  const bool was_there = is_set(launcher.rank) || is_set(launcher.size) ||
                         std::ranges::any_of(launcher.others, is_set);
  if (was_there) raise_incomplete(launcher);
  return std::nullopt;
}

// A batch script has a rank in Slurm as well, but only a job step has other ranks.
std::optional<Claim> claim_of_slurm() {
  static const Launcher launcher = {"srun",
                                    "SLURM_PROCID",
                                    "SLURM_STEP_NUM_TASKS",
                                    {"SLURM_STEP_NODELIST"},
                                    make<SlurmClusterResolver>};
  if (!is_set("SLURM_STEP_NUM_TASKS") && !is_set("SLURM_STEP_NODELIST")) return std::nullopt;
  return claim_of(launcher);
}

// A launcher that started a single process does not count where another launcher started several.
std::optional<Claim> claim_of_launchers() {
  std::optional<Claim> chosen;
  for (const Launcher& launcher : launchers()) {
    const std::optional<Claim> claim = claim_of(launcher);
    if (!claim || (chosen && claim->size <= 1)) continue;
    if (chosen && chosen->size > 1 && !chosen->same_place(*claim)) {
      raise(Code::FailedPrecondition,
            "[{}] two launchers claim this process: {}, but {}; unset the variables that do not "
            "belong to this run, or describe the cluster in TF_CONFIG",
            kEnvironment, chosen->to_string(), claim->to_string());
    }
    if (!chosen || chosen->size <= 1) chosen = claim;
  }
  return chosen;
}

// srun may have started the other launcher, whose processes inherit the variables of srun. Where
// both agree on the place, Slurm's variables are better, because they name the hosts.
std::optional<Claim> claim_on_this_process() {
  const std::optional<Claim> launched = claim_of_launchers();
  const std::optional<Claim> step = claim_of_slurm();
  if (!launched || (step && (launched->same_place(*step) || launched->size <= 1))) return step;
  return launched;
}

// PMIx says which process this is, but not of how many.
void check_no_other_launcher() {
  if (!is_set("PMIX_RANK")) return;
  raise(Code::FailedPrecondition,
        "[{}] PMIX_RANK is set, so a launcher started this process as one of several, but no "
        "variable gives the number of processes (OMPI_COMM_WORLD_SIZE, PMI_SIZE, "
        "SLURM_STEP_NUM_TASKS); describe the cluster in TF_CONFIG",
        kEnvironment);
}

// The tasks that train together; 1 for an evaluator, which belongs to no group.
int count_processes(const ClusterResolver& resolver) {
  const ClusterSpec cluster = resolver.cluster_spec();
  if (resolver.task_type() == "evaluator") return 1;
  int tasks = 0;
  for (const std::string& job : cluster.jobs()) {
    if (job != "evaluator") tasks += cluster.num_tasks(job);
  }
  return tasks;
}

// What the environment says of the processes that train together.
struct Description {
  std::string source;
  int processes;
  Resolver (*make)();  // makes the resolver that names the processes
};

Description described_by_environment() {
  // A TF_CONFIG without a cluster says nothing about other processes.
  const TFConfigClusterResolver tf_config;
  if (tf_config.cluster_spec()) {
    return {"TF_CONFIG", count_processes(tf_config), make<TFConfigClusterResolver>};
  }
  if (const std::optional<Claim> claim = claim_on_this_process()) {
    const Launcher& launcher = *claim->launcher;
    return {fmt::format("{} ({}, {})", launcher.name, launcher.rank, launcher.size), claim->size,
            launcher.make};
  }
  check_no_other_launcher();
  if (!internal::environment_variable("SM_HOSTS").value_or("").empty()) {
    return {"SageMaker (SM_HOSTS)", count_processes(SageMakerClusterResolver()),
            make<SageMakerClusterResolver>};
  }
  return {"nothing", 1, make<TFConfigClusterResolver>};
}

}  // namespace

namespace internal {
namespace {

constexpr std::array<std::pair<std::string_view, StrategyChoice>, 5> kChoices = {
    {{"one_device", StrategyChoice::OneDevice},
     {"mirrored", StrategyChoice::Mirrored},
     {"central_storage", StrategyChoice::CentralStorage},
     {"multi_worker", StrategyChoice::MultiWorker},
     {"parameter_server", StrategyChoice::ParameterServer}}};

StrategyChoice for_cluster(const ClusterSpec& cluster, StrategyChoice alone) {
  if (tasks_in(cluster, "ps") > 0) return StrategyChoice::ParameterServer;
  const int training =
      tasks_in(cluster, "chief") + tasks_in(cluster, "master") + tasks_in(cluster, "worker");
  return training > 1 ? StrategyChoice::MultiWorker : alone;
}

bool spans_tasks(StrategyChoice choice) {
  return choice == StrategyChoice::MultiWorker || choice == StrategyChoice::ParameterServer;
}

void check_chief(const ClusterSpec& cluster, const std::string& task_type) {
  if (task_type.empty() || !cluster || cluster.has_job("chief")) return;
  raise(Code::InvalidArgument,
        "[strategy_from_environment] a cluster with parameter servers needs a chief, which tells "
        "the workers what to do, but {} has no chief; add one (cohort run --strategy "
        "parameter_server does)",
        cluster.to_string());
}

}  // namespace

std::optional<LaunchOfSeveral> launch_of_several() {
  const Description found = described_by_environment();
  if (found.processes <= 1) return std::nullopt;
  return LaunchOfSeveral{found.source, found.processes};
}

StrategyChoice parse_strategy(std::string_view name, std::string_view source) {
  for (const auto& [known, choice] : kChoices) {
    if (known == name) return choice;
  }
  std::vector<std::string> names;
  for (const auto& [known, choice] : kChoices) names.emplace_back(known);
  raise(Code::InvalidArgument, "{} is '{}', which is not a strategy; use {}{}", source,
        excerpt(name), quoted_list(names), did_you_mean(name, names));
}

StrategyChoice choose_strategy(const ClusterResolver& resolver, size_t devices) {
  const ClusterSpec cluster = resolver.cluster_spec();
  const std::string task_type = resolver.task_type().value_or("");
  const StrategyChoice alone = devices > 1 ? StrategyChoice::Mirrored : StrategyChoice::OneDevice;
  const std::string named = environment_variable(kStrategyVariable).value_or("");
  const StrategyChoice choice =
      named.empty() ? for_cluster(cluster, alone)
                    : parse_strategy(named, "[strategy_from_environment] COHORT_STRATEGY");
  if (task_type == "evaluator" && spans_tasks(choice)) return alone;
  if (choice == StrategyChoice::ParameterServer) check_chief(cluster, task_type);
  return choice;
}

}  // namespace internal

std::shared_ptr<ClusterResolver> resolver_from_environment() {
  std::shared_ptr<ClusterResolver> resolver = described_by_environment().make();
  (void)resolver->cluster_spec();
  return resolver;
}

}  // namespace cohort
