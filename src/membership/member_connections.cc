#include "membership/member_connections.h"

#include <fmt/ranges.h>

#include <map>

#include "base/host_identity.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/text.h"
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
  std::shared_ptr<Connection> connect(int rank, Deadline, const std::function<bool()>&) override {
    const auto to = static_cast<size_t>(rank);
    auto [ours, theirs] = connect_in_process(members_->peers[rank_], members_->peers[to]);
    members_->early[to].add({static_cast<int>(rank_), std::move(theirs)});
    return ours;
  }

 private:
  const size_t rank_;
  const std::shared_ptr<LocalMembers> members_;
};

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

// The connections of a group whose members have endpoints.
struct PendingConnections::State : MemberConnections {
  void open(std::weak_ptr<Endpoint> local_endpoint, const Group& of) {
    for (int rank = 0; rank < of.size(); ++rank) {
      const std::string& name = of.peers[static_cast<size_t>(rank)].name;
      const auto [other, is_new] = ranks.emplace(name, rank);
      if (is_new) continue;
      raise(Code::InvalidArgument, "[Collective] ranks {} and {} have one name, {}", other->second,
            rank, name);
    }
    endpoint = std::move(local_endpoint);
    group = of;
  }

  // Not a shared pointer to this state, because the state holds the function.
  void listen(Accept accept) override {
    early.listen([this, accept = std::move(accept)](auto connection) {
      hand_over(accept, std::move(connection));
    });
  }

  std::shared_ptr<Connection> connect(int rank, Deadline deadline,
                                      const std::function<bool()>& is_wanted) override {
    const Peer& wanted = group.peers[static_cast<size_t>(rank)];
    const auto held = endpoint.lock();
    if (!held) raise(Code::Cancelled, "[Collective] the endpoint of {} has ended", local_name());
    auto connection = held->connect(wanted.address, deadline, group.generation, is_wanted);
    const Peer& found = connection->peer();
    if (found.name != wanted.name) {
      raise(Code::FailedPrecondition,
            "[Collective] {} expected {} at {}, found {}; give each task an address of its own",
            local_name(), wanted.name, wanted.address, found.name);
    }
    if (is_another(found, wanted)) throw Error(started_again(Code::Unavailable, found, wanted));
    return connection;
  }

  void hand_over(const Accept& accept, std::shared_ptr<Connection> connection) {
    const Status problem = check(connection->peer());
    if (problem.ok()) {
      const int rank = ranks.at(connection->peer().name);
      return accept(rank, std::move(connection));
    }
    rare_log.warning("{}", problem.message);
    connection->close(problem);
  }

  Status check(const Peer& found) const {
    const auto known = ranks.find(found.name);
    if (known == ranks.end()) {
      std::vector<std::string> names;
      for (const Peer& peer : group.peers) names.push_back(peer.name);
      return {
          .code = Code::FailedPrecondition,
          .message = fmt::format(
              "[Collective] {} connects to {} and is not a member of its group, {}; start all "
              "tasks with the same cluster",
              found.name, local_name(), excerpt(fmt::format("{}", fmt::join(names, ", ")), 500))};
    }
    const Peer& wanted = group.peers[static_cast<size_t>(known->second)];
    if (is_another(found, wanted)) return started_again(Code::Aborted, found, wanted);
    if (found.generation == group.generation) return {};
    return {.code = Code::Aborted,
            .message = fmt::format(
                "[Collective] {} connects for generation {} of the group, {} is in generation {}; "
                "the task of the earlier generation must join again, or be started again",
                found.name, found.generation, local_name(), group.generation)};
  }

  // Whether `found` is a later or an earlier process of the wanted name, where that is known.
  static bool is_another(const Peer& found, const Peer& wanted) {
    return wanted.incarnation != 0 && found.incarnation != wanted.incarnation;
  }

  Status started_again(Code code, const Peer& found, const Peer& wanted) const {
    return {.code = code,
            .message = fmt::format(
                "[Collective] {} at {} has been started again since the group of {} began, with "
                "incarnation {:016x} instead of {:016x}; all members must form a new group",
                wanted.name, wanted.address, local_name(), found.incarnation, wanted.incarnation)};
  }

  const std::string& local_name() const {
    return group.peers[static_cast<size_t>(group.rank)].name;
  }

  EarlyConnections<std::shared_ptr<Connection>> early;
  RareLog rare_log;
  // Constant once `early` has a listener:
  std::weak_ptr<Endpoint> endpoint;
  Group group;  // without connections, which are this
  std::map<std::string, int> ranks;
};

PendingConnections::PendingConnections() : state_(std::make_shared<State>()) {}

Endpoint::Accept PendingConnections::accept() const {
  return [state = state_](std::shared_ptr<Connection> connection) {
    state->early.add(std::move(connection));
  };
}

void PendingConnections::open(std::weak_ptr<Endpoint> endpoint, Group& group) const {
  state_->open(std::move(endpoint), group);
  group.connections = state_;
}

}  // namespace cohort::internal
