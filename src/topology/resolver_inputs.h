#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/cluster_resolver.h"
#include "cohort/scheduler_resolvers.h"

namespace cohort::internal {

// What the resolvers read and share: ports, hostfiles, lists of Slurm, pages of clouds, TF_CONFIG,
// GPUs, and the strategy that a program is started with.

// The first port of a job: `given`, or a port that all processes compute from the name of the job,
// so that two jobs most likely get different ports. It lies below the ports that the system hands
// out. `tasks` is how many ports the job needs on a host. 8888 for a job without a name.
int job_port_base(std::optional<int> given, const std::optional<std::string>& job, int tasks);

// How many tasks the job has; 0 if the cluster has no such job.
int tasks_in(const ClusterSpec& cluster, std::string_view job);

// The launcher that started this process as one of several.
struct LaunchOfSeveral {
  std::string launcher;  // "torchrun (RANK, WORLD_SIZE)"
  int processes;
};
// Nothing for a process that was started alone, as an evaluator is. Throws as
// resolver_from_environment() does.
std::optional<LaunchOfSeveral> launch_of_several();

// A host and how many tasks run on it.
struct HostSlots {
  std::string host;
  int slots = 1;
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// The hosts of a hostfile: lines "host", "host slots=4" or "host:4", with # comments. `name` is the
// name of the file, for messages. Throws InvalidArgument with the number of a line that cannot be
// read or repeats a host, and if the text names none.
std::vector<HostSlots> parse_hostfile(std::string_view text, std::string_view name);

// The same for the contents of a file. Throws NotFound if the file cannot be opened.
std::vector<HostSlots> read_hostfile(const std::string& path);

// One address per slot: port_base, port_base + 1, ... on each host.
std::vector<std::string> slot_addresses(const std::vector<HostSlots>& hosts, int port_base,
                                        std::string_view operation);

// The hosts of Slurm's compact form, in order: a[3-5],b7,c[1,4-5] -> a3 a4 a5 b7 c1 c4 c5. Leading
// zeros are kept (n[08-10] -> n08 n09 n10); several brackets in one name give every combination.
// Throws InvalidArgument if the text cannot be read or means more than 100,000 hosts.
std::vector<std::string> parse_node_list(std::string_view text);

// 2(x3),1 -> 2 2 2 1. Throws InvalidArgument if the text cannot be read or has more than 100,000
// entries.
std::vector<int> parse_task_counts(std::string_view text);

// One page of a cloud's list of machines.
struct InstancePage {
  TaskList addresses;  // of the running machines, with the port
  std::string next;    // the token of the next page; empty on the last page
};
// Reads a page by the paths in the options. Throws InvalidArgument if the answer is not such a list
// or a path is not a JSON pointer, FailedPrecondition if a running machine has no address.
InstancePage read_instance_page(std::string_view answer, const HttpMetadataOptions& options);

// What TF_CONFIG says.
struct TFConfig {
  ClusterSpec cluster;
  std::optional<std::string> task_type;
  std::optional<int> task_id;
  std::optional<std::string> rpc_layer;
  std::optional<std::string> session_master;
  std::optional<std::string> environment;
};

// Parses the value of TF_CONFIG. Throws InvalidArgument that says what is wrong and where. Unknown
// keys are ignored unless they look like a known key.
TFConfig parse_tf_config(std::string_view text);

// The GPUs that CUDA_VISIBLE_DEVICES names, up to a -1; nothing if the variable is not set.
std::optional<std::vector<std::string>> named_gpus();

// How many GPUs the driver of this machine knows.
int installed_gpu_count();

// The ways to train that the start of a program chooses from.
enum class StrategyChoice { OneDevice, Mirrored, CentralStorage, MultiWorker, ParameterServer };

// The variable that names the choice.
inline constexpr char kStrategyVariable[] = "COHORT_STRATEGY";
// "mirrored" is Mirrored and so on. Throws InvalidArgument for another name. The message begins
// with `source`, which says where the name is from: "[Run] --strategy".
StrategyChoice parse_strategy(std::string_view name, std::string_view source);

// The strategy that kStrategyVariable names. Without the variable: ParameterServer in a cluster
// with ps tasks, MultiWorker for one of several tasks that train, else Mirrored over several
// devices and OneDevice on one. `devices` counts the devices of this process. An evaluator trains
// alone. Throws as parse_strategy, and InvalidArgument for parameter servers without a chief,
// because their workers would wait forever.
StrategyChoice choose_strategy(const ClusterResolver& resolver, size_t devices);

}  // namespace cohort::internal
