#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/peers.h"
#include "cohort/cluster.h"
#include "cohort/device.h"
#include "cohort/error.h"

namespace cohort::internal {

// The task's part of a device's name.
std::string task_name(const DeviceName& device);

// All tasks of a cluster, by name.
std::vector<std::string> task_names(const ClusterSpec& cluster);
// Throws NotFound, listing the tasks, when the cluster has no such task.
std::string address_of(const ClusterSpec& cluster, const std::string& task);

// The error of a task that was there and is not there any more.
inline Status lost_task(const std::string& task, const Status& why) {
  return {.code = Code::Unavailable,
          .message = fmt::format("[Cluster] task {} is lost", task),
          .origin = task,
          .cause = std::make_shared<const Status>(why)};
}

// The error of a task that is there again, without its state.
inline Status restarted_task(const std::string& task) {
  return {.code = Code::Aborted,
          .message = fmt::format("[Cluster] task {} was restarted; open a new session", task),
          .origin = task};
}

// The tasks of a cluster by the names that a session has for them: those that they were started
// with, or those that its client gave them. Constant; thread-safe.
class TaskDirectory {
 public:
  // InvalidArgument unless `renamed` has the server itself, once, and not under the name that it
  // was started with.
  explicit TaskDirectory(std::shared_ptr<Peers> peers,
                         std::optional<ClusterSpec> renamed = std::nullopt);

  const ClusterSpec& cluster() const { return cluster_; }
  const std::string& self() const { return self_; }
  bool is_renamed() const { return renamed_; }
  // Where others find the task, when its name means nothing to them; else empty.
  std::string address(const std::string& task) const {
    return renamed_ ? address_of(cluster_, task) : "";
  }

  // See Peers::get.
  Link::Pointer get(const std::string& task, Deadline deadline) const;

 private:
  std::string find_self() const;

  const std::shared_ptr<Peers> peers_;
  const bool renamed_;
  const ClusterSpec cluster_;
  const std::string self_;
};

// How to work with several tasks at the same time.
struct Gathering {
  std::string what;  // "Session", for messages
  Deadline deadline;
  std::function<void(const std::string&)> notice;  // gets, every few seconds, what is waited for
};

// Runs body(i, link to tasks[i]) for all tasks beside one another. A task that cannot be reached is
// tried again until the deadline. Throws, when all have ended, the failures as one: Unavailable,
// naming each task and why, when tasks were not there; else with the code of the first.
void with_tasks(const TaskDirectory& directory, const std::vector<std::string>& tasks,
                const Gathering& gathering,
                const std::function<void(size_t, const Link::Pointer&)>& body);

}  // namespace cohort::internal
