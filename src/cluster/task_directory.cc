#include "cluster/task_directory.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "cluster/task_names.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

bool is_same_place(const std::string& a, const std::string& b) {
  const HostPort one = parse_address(a);
  const HostPort other = parse_address(b);
  return one.port == other.port &&
         (one.host == other.host || (is_loopback(one.host) && is_loopback(other.host)));
}

}  // namespace

TaskDirectory::TaskDirectory(std::shared_ptr<Peers> peers, std::optional<ClusterSpec> renamed)
    : peers_(std::move(peers)),
      renamed_(renamed.has_value()),
      cluster_(renamed ? std::move(*renamed) : peers_->cluster()),
      self_(find_self()) {}

std::string TaskDirectory::find_self() const {
  if (!renamed_) return peers_->self();
  std::vector<std::string> found;
  for (const std::string& task : task_names(cluster_)) {
    if (is_same_place(address_of(cluster_, task), peers_->address())) found.push_back(task);
  }
  if (found.size() != 1) {
    raise(Code::InvalidArgument,
          "[Session] the session's cluster has its server, at {}, {} times; it must have it once",
          peers_->address(), found.size());
  }
  if (found[0] == peers_->self()) {
    raise(Code::InvalidArgument,
          "[Session] the session's cluster gives its server the name {}, with which that was "
          "started; take another job's name for it, or leave the cluster out",
          found[0]);
  }
  return found[0];
}

std::string TaskDirectory::address(const std::string& task) const {
  return renamed_ ? address_of(cluster_, task) : "";
}

Link::Pointer TaskDirectory::get(const std::string& task, Deadline deadline) const {
  if (!renamed_) return peers_->get(task, deadline);
  if (task == self_) return peers_->get(peers_->self(), deadline);
  const std::string where = address(task);
  Link::Pointer link;
  Status status = capture_status([&] { link = peers_->get_at(where, deadline); });
  if (!status.ok()) {
    status.message = fmt::format("task {} at {}: {}", task, where, status.message);
    throw Error(std::move(status));
  }
  return link;
}

}  // namespace cohort::internal
