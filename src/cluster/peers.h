#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "cluster/request_link.h"
#include "cohort/cluster.h"
#include "cohort/server.h"
#include "rpc/heartbeat.h"
#include "transport/connection.h"
#include "transport/direct_connection.h"

namespace cohort::internal {

// A task's links to the others of its cluster, one for each, made when first needed by either side;
// to tasks of any cluster that a session names by their addresses; and one to itself. Thread-safe.
class Peers {
 public:
  // What this task waits for in order to answer a client of its process.
  using PendingWaitOf = std::function<std::optional<PendingWait>(const Link::Pointer& client)>;

  // `events`: of every link, also those that clients open.
  Peers(ClusterSpec cluster, std::string self, const HeartbeatOptions& heartbeat,
        Link::Events events, PendingWaitOf pending_wait_of);

  // Before anything else. `make_outbound`: how this task calls those of other clusters.
  using MakeEndpoint = std::function<std::unique_ptr<Endpoint>()>;
  void start(std::shared_ptr<Endpoint> endpoint, MakeEndpoint make_outbound);
  // A connection that another task or a client opened to this task.
  void accept(std::shared_ptr<Connection> connection);

  // Tries until the deadline. Throws what Endpoint::connect does, with the task's name; Cancelled
  // after stop().
  Link::Pointer get(const std::string& task, Deadline deadline);
  // The same for the task at an address, whichever it is.
  Link::Pointer get_at(const std::string& address, Deadline deadline);
  // Ends all links, and returns when nothing more comes from them.
  void stop();

  const ClusterSpec& cluster() const { return cluster_; }
  const std::string& self() const { return self_; }
  // Where this task listens.
  const std::string& address() const { return endpoint_->self().address; }
  std::vector<ServerStatus::Peer> status() const;

 private:
  struct Entry {
    Turn connecting;     // of the one thread that tries
    Link::Pointer link;  // guarded by mutex_
  };
  using Connect = std::function<std::shared_ptr<Connection>(Deadline)>;

  Entry& entry(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Entry>& entry = entries_[key];
    if (!entry) entry = std::make_unique<Entry>();
    return *entry;
  }
  Link::Pointer live_link(Entry& entry) const;
  // The link of that entry, made by `connect` where there is none.
  Link::Pointer get_or_make(const std::string& key, const Connect& connect, Deadline deadline);
  std::shared_ptr<Connection> connect(const std::string& task, Deadline deadline);
  Endpoint& outbound();
  // Null before the first call. Throws Cancelled after stop().
  Endpoint* live_outbound() const;
  Link::Pointer begin(std::shared_ptr<Connection> connection);
  void watch(const Link::Pointer& link);
  // Closes a link that stop() may have missed. Returns whether the task was stopped.
  bool close_if_stopped(const Link::Pointer& link);
  std::vector<Link::Pointer> live_links() const;

  const ClusterSpec cluster_;
  const std::string self_;
  const Link::Events events_;
  const PendingWaitOf pending_wait_of_;
  std::shared_ptr<Endpoint> endpoint_;
  MakeEndpoint make_outbound_;
  Link::Pointer local_master_;
  Link::Pointer local_worker_;

  mutable Mutex mutex_;
  // By task, or by address; guarded by mutex_, as all below.
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::vector<std::weak_ptr<Link>> links_;  // with others, whichever side opened them
  std::unique_ptr<Endpoint> outbound_;      // made with the first call
  bool stopped_ = false;
  size_t alive_ = 0;  // links whose end has not been reported
  std::condition_variable_any all_ended_;

  // These call back until they are gone, so they go first.
  Heartbeat heartbeat_;
  LinkWatch clients_;  // they listen nowhere
};

// How many bytes each peer of a task has under way there: feeds and tensors of steps that are not
// over, requests that are not answered. Connections of one peer count together. Thread-safe.
class PeerQuotas {
 public:
  // The limit of a peer: COHORT_PEER_BYTES, or else half of the memory that this process may
  // have. Throws InvalidArgument for a value that is not a number of bytes.
  static uint64_t limit_from_environment();

  PeerQuotas(std::string self, uint64_t limit) : self_(std::move(self)), limit_(limit) {}

  // The bytes count until the charge is destroyed.
  using Charge = std::shared_ptr<const void>;
  // For a message of `peer`. Throws ResourceExhausted when the peer has too much under way already.
  Charge charge(const Peer& peer, const Message& message);

 private:
  using Account = std::atomic<uint64_t>;  // the bytes that count
  std::shared_ptr<Account> account_of(const std::string& peer);

  const std::string self_;
  const uint64_t limit_;
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Account>> accounts_;  // guarded by mutex_
};

}  // namespace cohort::internal
