#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/link.h"
#include "cohort/cluster.h"
#include "cohort/server.h"
#include "rpc/heartbeat.h"
#include "transport/direct.h"
#include "transport/party.h"

namespace cohort::internal {

// A task's links to the others of its cluster, one for each, made when first needed by either side;
// and one to itself. Thread-safe.
class Peers {
 public:
  // What this task waits for in order to answer a client of its process.
  using ErrandOf = std::function<std::optional<Errand>(const Link::Pointer& client)>;

  // `events`: of every link, also those that clients open.
  Peers(ClusterSpec cluster, std::string self, const HeartbeatOptions& heartbeat,
        Link::Events events, ErrandOf errand_of);

  // Before anything else.
  void start(std::shared_ptr<Party> party);
  // A connection that somebody opened to this task.
  void accept(std::shared_ptr<Connection> connection);

  // Tries until the deadline. Throws what Party::connect does, with the task's name; Cancelled
  // after stop().
  Link::Pointer get(const std::string& task, Deadline deadline);
  // The worker's end of the link of the task to itself.
  const Link::Pointer& own_worker() const { return own_worker_; }
  // Ends all links, and returns when nothing more comes from them.
  void stop();

  const ClusterSpec& cluster() const { return cluster_; }
  const std::string& self() const { return self_; }
  std::vector<ServerStatus::Peer> status() const;

 private:
  struct Entry {
    std::mutex connecting;  // held by the one thread that tries
    Link::Pointer link;     // guarded by mutex_
  };
  Entry& entry(const std::string& task);
  Link::Pointer live_link(Entry& entry) const;
  Link::Pointer connect(const std::string& task, Deadline deadline);
  Link::Pointer begin(std::shared_ptr<Connection> connection);
  void note_end();
  void watch(const Link::Pointer& link);

  const ClusterSpec cluster_;
  const std::string self_;
  const Link::Events events_;
  const ErrandOf errand_of_;
  Heartbeat heartbeat_;
  std::shared_ptr<Party> party_;
  Link::Pointer own_master_;
  Link::Pointer own_worker_;

  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;  // guarded by mutex_, as all below
  std::vector<std::weak_ptr<Link>> accepted_;
  bool stopped_ = false;
  size_t alive_ = 0;  // links whose end has not been told
  std::condition_variable all_ended_;
};

}  // namespace cohort::internal
