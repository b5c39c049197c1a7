#include "collectives/party_rendezvous.h"

#include <map>

#include "base/mutex.h"
#include "base/raise.h"
#include "base/rare_log.h"

namespace cohort::internal {
namespace {

// Whether it is a later or an earlier one of the name, where that is known.
bool is_another(const Peer& found, const Peer& wanted) {
  return wanted.incarnation != 0 && found.incarnation != wanted.incarnation;
}

}  // namespace

struct MemberDoor::State {
  using Came = std::shared_ptr<Connection>;

  // Before the members are known, or before anybody listens, it waits.
  void bring(Came connection) {
    Rendezvous::Accept listener;
    {
      const std::lock_guard lock(mutex);
      if (!accept) return waiting.push_back(std::move(connection));
      listener = accept;
    }
    hand_over(listener, std::move(connection));
  }

  void listen(Rendezvous::Accept listener) {
    std::vector<Came> early;
    {
      const std::lock_guard lock(mutex);
      accept = listener;
      early.swap(waiting);
    }
    for (Came& connection : early) hand_over(listener, std::move(connection));
  }

  void hand_over(const Rendezvous::Accept& listener, Came connection) {
    const Status problem = check(connection->peer());
    if (problem.ok()) {
      const int rank = ranks.at(connection->peer().name);
      return listener(rank, std::move(connection));
    }
    rare_log.warning("{}", problem.message);
    connection->close(problem);
  }

  Status check(const Peer& peer) const {
    const auto found = ranks.find(peer.name);
    if (found == ranks.end()) {
      return {.code = Code::FailedPrecondition,
              .message = fmt::format("[Collective] {} is no member of the group", peer.name)};
    }
    if (!is_another(peer, members[static_cast<size_t>(found->second)])) return {};
    return {.code = Code::Aborted,
            .message = fmt::format("[Collective] {} has been started again since the group began",
                                   peer.name)};
  }

  // Constant once `accept` is set:
  std::vector<Peer> members;
  std::map<std::string, int> ranks;

  RareLog rare_log;

  Mutex mutex;
  // Guarded by mutex:
  std::vector<Came> waiting;
  Rendezvous::Accept accept;
};

namespace {

class PartyRendezvous : public Rendezvous {
 public:
  using Listen = std::function<void(Accept)>;

  PartyRendezvous(std::weak_ptr<Party> party, int rank, std::vector<Peer> members, Listen listen)
      : party_(std::move(party)),
        rank_(rank),
        members_(std::move(members)),
        listen_(std::move(listen)) {}

  int rank() const override { return rank_; }
  const std::vector<Peer>& members() const override { return members_; }
  void listen(Accept accept) override { listen_(std::move(accept)); }

  std::shared_ptr<Connection> connect(int rank, Deadline deadline) override {
    const Peer& wanted = members_[static_cast<size_t>(rank)];
    const auto party = party_.lock();
    if (!party) raise(Code::Cancelled, "[Collective] this task's endpoint has ended");
    auto connection = party->connect(wanted.address, deadline);
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
  const std::weak_ptr<Party> party_;
  const int rank_;
  const std::vector<Peer> members_;
  const Listen listen_;
};

}  // namespace

MemberDoor::MemberDoor() : state_(std::make_shared<State>()) {}

Party::Accept MemberDoor::accept() const {
  return [state = state_](std::shared_ptr<Connection> connection) {
    state->bring(std::move(connection));
  };
}

std::shared_ptr<Rendezvous> MemberDoor::open(std::weak_ptr<Party> party, int rank,
                                             std::vector<Peer> members) const {
  for (size_t i = 0; i < members.size(); ++i) {
    const auto [other, is_new] = state_->ranks.emplace(members[i].name, static_cast<int>(i));
    if (is_new) continue;
    raise(Code::InvalidArgument, "[Collective] ranks {} and {} have one name, {}", other->second, i,
          members[i].name);
  }
  state_->members = members;
  return std::make_shared<PartyRendezvous>(
      std::move(party), rank, std::move(members),
      [state = state_](Rendezvous::Accept accept) { state->listen(std::move(accept)); });
}

}  // namespace cohort::internal
