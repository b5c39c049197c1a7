#include "cluster/cluster_endpoints.h"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>

#include "base/machine.h"
#include "cluster/task_names.h"
#include "rpc/make_endpoint.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

// The same for all tasks that were started with the same cluster.
uint64_t fingerprint(const ClusterSpec& cluster) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a: the same on every machine
  for (const char c : cluster.to_string()) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash == 0 ? 1 : hash;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "?";
}

}  // namespace

std::unique_ptr<Endpoint> make_task_endpoint(const ServerDef& def, const ServerOptions& options,
                                             Endpoint::Accept accept,
                                             std::function<std::string()> details) {
  return make_endpoint({.self = {.name = task_name(def.job_name, def.task_index),
                                 .incarnation = random_number(),
                                 .address = def.address()},
                        .cluster = options.joins_later ? 0 : fingerprint(def.cluster),
                        .credentials = options.credentials,
                        .spans_hosts = spans_hosts(def.cluster),
                        .details = std::move(details)},
                       std::move(accept));
}

std::unique_ptr<Endpoint> make_outbound_endpoint(const Peer& task, const Credentials& credentials) {
  return make_endpoint(
      {.self = {.name = task.name, .incarnation = task.incarnation}, .credentials = credentials});
}

std::unique_ptr<Endpoint> make_client_endpoint(const Credentials& credentials) {
  return make_endpoint({.self = {.name = fmt::format("client {} on {}", getpid(), host_name()),
                                 .incarnation = random_number()},
                        .credentials = credentials});
}

}  // namespace cohort::internal
