#include "membership/member_connections.h"

#include <fmt/format.h>

#include <map>

#include "base/host_identity.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "transport/in_process.h"

namespace cohort::internal {

// Keeps new connections until the member listens.
template <typename Connected>
class EarlyConnections {
 public:
  using Accept = std::function<void(Connected)>;

  void add(Connected connected) {
    Accept accept;
    {
      const std::lock_guard lock(mutex_);
      if (!accept_) return waiting_.push_back(std::move(connected));
      accept = accept_;
    }
    accept(std::move(connected));
  }

  void listen(Accept accept) {
    std::vector<Connected> waiting;
    {
      const std::lock_guard lock(mutex_);
      accept_ = accept;
      waiting.swap(waiting_);
    }
    for (Connected& connected : waiting) accept(std::move(connected));
  }

 private:
  Mutex mutex_;
  // Guarded by mutex_:
  Accept accept_;
  std::vector<Connected> waiting_;
};

namespace {

struct FromMember {
  int rank;
  std::shared_ptr<Connection> connection;
};

struct LocalMembers {
  explicit LocalMembers(const std::vector<Peer>& all) : peers(all), early(all.size()) {}

  const std::vector<Peer> peers;
  std::vector<EarlyConnections<FromMember>> early;  // by rank
};

class InProcessConnections : public MemberConnections {
 public:
  InProcessConnections(size_t rank, std::shared_ptr<LocalMembers> members)
      : rank_(rank), members_(std::move(members)) {}

  void listen(Accept accept) override {
    members_->early[rank_].listen([accept = std::move(accept)](FromMember from) {
      accept(from.rank, std::move(from.connection));
    });
  }
  std::shared_ptr<Connection> connect(int rank, Deadline) override {
    const auto to = static_cast<size_t>(rank);
    auto [ours, theirs] = connect_in_process(members_->peers[rank_], members_->peers[to]);
    members_->early[to].add({static_cast<int>(rank_), std::move(theirs)});
    return ours;
  }

 private:
  const size_t rank_;
  const std::shared_ptr<LocalMembers> members_;
};

// Whether `found` is a later or an earlier process of the wanted name, where that is known.
bool is_another(const Peer& found, const Peer& wanted) {
  return wanted.incarnation != 0 && found.incarnation != wanted.incarnation;
}

}  // namespace

std::vector<Group> in_process_groups(const std::vector<Peer>& peers) {
  const auto members = std::make_shared<LocalMembers>(peers);
  const std::vector<std::string> hosts(peers.size(), host_identity());
  std::vector<Group> groups;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    groups.push_back({.rank = static_cast<int>(rank),
                      .peers = peers,
                      .hosts = hosts,
                      .connections = std::make_shared<InProcessConnections>(rank, members)});
  }
  return groups;
}

struct PendingConnections::State {
  void open(const Group& group) {
    for (int rank = 0; rank < group.size(); ++rank) {
      const std::string& name = group.peers[static_cast<size_t>(rank)].name;
      const auto [other, is_new] = ranks.emplace(name, rank);
      if (is_new) continue;
      raise(Code::InvalidArgument, "[Collective] ranks {} and {} have one name, {}", other->second,
            rank, name);
    }
    generation = group.generation;
    peers = group.peers;
  }

  void hand_over(const MemberConnections::Accept& accept, std::shared_ptr<Connection> connection) {
    const Status problem = check(connection->peer());
    if (problem.ok()) {
      const int rank = ranks.at(connection->peer().name);
      return accept(rank, std::move(connection));
    }
    rare_log.warning("{}", problem.message);
    connection->close(problem);
  }

  Status check(const Peer& peer) const {
    const auto found = ranks.find(peer.name);
    if (found == ranks.end()) {
      return {.code = Code::FailedPrecondition,
              .message = fmt::format("[Collective] {} is not a member of the group", peer.name)};
    }
    if (is_another(peer, peers[static_cast<size_t>(found->second)])) {
      return {.code = Code::Aborted,
              .message = fmt::format("[Collective] {} has been started again since the group began",
                                     peer.name)};
    }
    if (peer.generation == generation) return {};
    return {.code = Code::Aborted,
            .message = fmt::format("[Collective] {} connects for generation {}, this is {}",
                                   peer.name, peer.generation, generation)};
  }

  EarlyConnections<std::shared_ptr<Connection>> early;
  RareLog rare_log;
  // Constant once `early` has a listener:
  uint64_t generation = 0;
  std::vector<Peer> peers;
  std::map<std::string, int> ranks;
};

namespace {

class EndpointConnections : public MemberConnections {
 public:
  using Listen = std::function<void(Accept)>;

  EndpointConnections(std::weak_ptr<Endpoint> endpoint, const Group& group, Listen listen)
      : endpoint_(std::move(endpoint)),
        generation_(group.generation),
        peers_(group.peers),
        listen_(std::move(listen)) {}

  void listen(Accept accept) override { listen_(std::move(accept)); }

  std::shared_ptr<Connection> connect(int rank, Deadline deadline) override {
    const Peer& wanted = peers_[static_cast<size_t>(rank)];
    const auto endpoint = endpoint_.lock();
    if (!endpoint) raise(Code::Cancelled, "[Collective] this task's endpoint has ended");
    auto connection = endpoint->connect(wanted.address, deadline, generation_);
    const Peer& found = connection->peer();
    if (found.name != wanted.name) {
      raise(Code::FailedPrecondition, "[Collective] expected {} at {}, found {}", wanted.name,
            wanted.address, found.name);
    }
    if (is_another(found, wanted)) {
      raise(Code::Unavailable, "[Collective] {} at {} has been started again since the group began",
            wanted.name, wanted.address);
    }
    return connection;
  }

 private:
  const std::weak_ptr<Endpoint> endpoint_;
  const uint64_t generation_;
  const std::vector<Peer> peers_;
  const Listen listen_;
};

}  // namespace

PendingConnections::PendingConnections() : state_(std::make_shared<State>()) {}

Endpoint::Accept PendingConnections::accept() const {
  return [state = state_](std::shared_ptr<Connection> connection) {
    state->early.add(std::move(connection));
  };
}

void PendingConnections::open(std::weak_ptr<Endpoint> endpoint, Group& group) const {
  state_->open(group);
  group.connections = std::make_shared<EndpointConnections>(
      std::move(endpoint), group, [state = state_](MemberConnections::Accept accept) {
        // Not a shared pointer: the state holds this function.
        state->early.listen([held = state.get(), accept = std::move(accept)](auto connection) {
          held->hand_over(accept, std::move(connection));
        });
      });
}

}  // namespace cohort::internal
