#include <unistd.h>

#include "topology/address.h"
#include "topology/launcher.h"
#include "topology/text.h"

namespace cohort {
namespace {

using internal::environment_variable;
using internal::require_number;
using Local = internal::LaunchedProcess::Local;

constexpr const char* kTorchrun = "Torchrun";

std::optional<int> number_if_set(const char* name) {
  if (!environment_variable(name)) return std::nullopt;
  return require_number(name, kTorchrun);
}

bool is_this_host(const std::string& name) {
  char own[256] = {};
  gethostname(own, sizeof(own) - 1);
  return internal::is_loopback(name) || name == own;
}

// Programs that start processes as torchrun does often set RANK and WORLD_SIZE only. Whether the
// other processes are on this host then follows from where they meet.
std::optional<Local> torchrun_local_place(int rank, int world_size,
                                          const LauncherOptions& options) {
  std::optional<int> size = number_if_set("LOCAL_WORLD_SIZE");
  const std::optional<int> local_rank = number_if_set("LOCAL_RANK");
  const std::string master = environment_variable("MASTER_ADDR").value_or("localhost");
  const bool may_share_host = local_rank.value_or(rank) == rank && is_this_host(master);
  if (!size && options.hostfile.empty() && may_share_host) size = world_size;
  if (!size || (!local_rank && *size != world_size)) return std::nullopt;
  return Local{.rank = local_rank.value_or(rank), .size = *size};
}

// Both are the same for all processes of a job, and each alone may be that of another job:
// MASTER_PORT is often left at its default, and so is the run's id.
std::optional<std::string> torchrun_job() {
  const std::optional<std::string> port = environment_variable("MASTER_PORT");
  const std::optional<std::string> run = environment_variable("TORCHELASTIC_RUN_ID");
  if (!port && !run) return std::nullopt;
  return port.value_or("") + "/" + run.value_or("");
}

}  // namespace

TorchrunClusterResolver::TorchrunClusterResolver(const LauncherOptions& options) {
  const int rank = require_number("RANK", kTorchrun);
  const int world_size = require_number("WORLD_SIZE", kTorchrun);
  const std::string master = environment_variable("MASTER_ADDR").value_or("localhost");
  const internal::LaunchedProcess process{
      .launcher = kTorchrun,
      .local_variables = "LOCAL_RANK and LOCAL_WORLD_SIZE",
      .rank = rank,
      .world_size = world_size,
      .local = torchrun_local_place(rank, world_size, options),
      // By another name than the loopback's, other hosts could reach the processes.
      .this_host = internal::is_loopback(master) ? master : "localhost",
      .job = torchrun_job()};
  deal(process, options);
}

}  // namespace cohort
