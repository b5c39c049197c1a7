#include "membership/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/hash.h"
#include "base/raise.h"
#include "base/text.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

void add_job(const ClusterSpec& cluster, const std::string& job, WorkerList& list) {
  if (!cluster.has_job(job)) return;
  for (const int index : cluster.task_indices(job)) {
    list.workers.push_back({task_name(job, index), cluster.task_address(job, index)});
  }
}

void check_addresses(const WorkerList& list, std::string_view component) {
  std::map<std::string, std::string> taken;
  for (const WorkerList::Worker& worker : list.workers) {
    (void)parse_address(worker.address);
    const auto [known, is_new] = taken.emplace(worker.address, worker.name);
    if (is_new) continue;
    raise(Code::InvalidArgument,
          "[{}] {} and {} have the same address, {}; each worker needs its own: {}", component,
          known->second, worker.name, worker.address, list.cluster);
  }
}

}  // namespace

WorkerList list_workers(const ClusterSpec& cluster, const std::string& task_type, int task_id,
                        std::string_view component) {
  const int count = worker_count(cluster, task_type, task_id);
  WorkerList list{.self = id_in_cluster(cluster, task_type, task_id),
                  .is_chief = cohort::is_chief(cluster, task_type, task_id),
                  .spans_hosts = internal::spans_hosts(cluster),
                  .cluster = cluster.to_string()};
  if (task_type == "evaluator") {
    add_job(cluster, "evaluator", list);
    if (list.workers.empty()) list.workers.push_back({task_name(task_type, task_id), ""});
    list.self = std::min(list.self, count - 1);
    return list;
  }
  for (const char* const job : {"chief", "master", "worker"}) add_job(cluster, job, list);
  check_addresses(list, component);
  return list;
}

// ---- What workers say about themselves

namespace {

// Changes with what workers say to each other until their group is formed.
constexpr uint64_t kProtocol = 2;
constexpr size_t kMaxWholeText = 900;  // with a note of its length it is below Member::kMaxText

// The texts of the other process come from outside.
Status differ(std::string_view component, const Member& one, const Member& other,
              const std::string& how) {
  const std::string text =
      fmt::format("[{}] {} ({}) and {} ({}) cannot train together: {}", component, one.peer.name,
                  one.process, other.peer.name, other.process, how);
  return {.code = Code::FailedPrecondition, .message = excerpt(text, kMaxStatusText)};
}

// `detail` says what differs between builds of one version.
std::string builds(const Member& one, const Member& other, const std::string& detail = "") {
  return fmt::format(
      "they are of different builds of the library, {} and {}{}; run the same release on all",
      one.peer.build, other.peer.build, detail);
}

// How the two differ, or "". The same words, whichever compares.
std::string difference(const Member& one, const Member& other) {
  if (one.peer.build != other.peer.build) return builds(one, other);
  if (one.workers != other.workers || one.cluster != other.cluster) {
    return fmt::format(
        "one knows {} workers, {}, the other {} workers, {}; start all with the same cluster",
        one.workers, one.cluster, other.workers, other.cluster);
  }
  if (one.id == other.id && one.peer.incarnation != other.peer.incarnation) {
    return fmt::format("both are worker {}; give each process an index of its own", one.id);
  }
  if (one.replicas != other.replicas) {
    return fmt::format(
        "one has {} replicas, the other {}; give all workers the same number of devices",
        one.replicas, other.replicas);
  }
  if (one.engine != other.engine) {
    return fmt::format(
        "one wants the engine '{}' for collectives, the other '{}'; choose one for all", one.engine,
        other.engine);
  }
  if (one.settings != other.settings) {
    return fmt::format("one was made with {}, the other with {}; give all the same options",
                       one.settings, other.settings);
  }
  return "";
}

}  // namespace

std::string shortened(const std::string& text) {
  if (text.size() <= kMaxWholeText) return text;
  return fmt::format("{}... ({} characters, hash {:016x})", text.substr(0, kMaxWholeText),
                     text.size(), hash_text(text));
}

std::string encode_settings(const Member& member) {
  Message message;
  MessageWriter writer(message);
  writer(kProtocol);
  Member::list_settings(writer, member);
  return message.header;
}

Member member_of(const Peer& peer, const Member& self, std::string_view component) {
  Member member{.peer = peer};
  member.peer.settings.clear();
  const Message message{peer.settings};
  MessageReader reader(message, "the settings of a worker");
  const uint64_t protocol = reader.number();
  if (protocol != kProtocol) {
    member.process = peer.address;
    const std::string detail =
        fmt::format(", whose workers join by protocols {} and {}", kProtocol, protocol);
    throw Error(differ(component, self, member, builds(self, member, detail)));
  }
  Member::list_settings(reader, member);
  reader.expect_end();
  if (member.generation == std::numeric_limits<uint64_t>::max()) {
    raise(Code::DataLoss, "[{}] {} comes from an impossible generation", component, peer.name);
  }
  return member;
}

Status compare(const Member& one, const Member& other, std::string_view component) {
  if (one.id > other.id) return compare(other, one, component);
  const std::string how = difference(one, other);
  return how.empty() ? Status{} : differ(component, one, other, how);
}

}  // namespace cohort::internal
