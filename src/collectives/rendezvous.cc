#include "collectives/rendezvous.h"

#include "base/mutex.h"
#include "base/raise.h"
#include "transport/in_process.h"

namespace cohort::internal {
namespace {

class Mesh : public Rendezvous {
 public:
  Mesh(int rank, std::vector<Peer> members, std::vector<std::shared_ptr<Connection>> connections)
      : rank_(rank), members_(std::move(members)), connections_(std::move(connections)) {}

  int rank() const override { return rank_; }
  const std::vector<Peer>& members() const override { return members_; }
  void listen(Accept accept) override {
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i]) accept(static_cast<int>(i), std::move(connections_[i]));
    }
  }
  std::shared_ptr<Connection> connect(int rank, Deadline) override {
    raise(Code::Unavailable, "[Collective] there is no connection with rank {} ({})", rank,
          members_[static_cast<size_t>(rank)].name);
  }

 private:
  const int rank_;
  const std::vector<Peer> members_;
  std::vector<std::shared_ptr<Connection>> connections_;
};

// Where the members of one process leave connections for each other.
struct Hall {
  struct Place {
    Rendezvous::Accept accept;
    std::vector<std::pair<int, std::shared_ptr<Connection>>> early;  // before anybody listened
  };

  void bring(int to, int from, std::shared_ptr<Connection> connection) {
    Rendezvous::Accept accept;
    {
      const std::lock_guard lock(mutex);
      Place& place = places[static_cast<size_t>(to)];
      if (!place.accept) return place.early.emplace_back(from, std::move(connection)), void();
      accept = place.accept;
    }
    accept(from, std::move(connection));
  }

  const std::vector<Peer> members;
  Mutex mutex;
  std::vector<Place> places;  // guarded by mutex

  explicit Hall(std::vector<Peer> all) : members(std::move(all)), places(members.size()) {}
};

class InProcessMember : public Rendezvous {
 public:
  InProcessMember(int rank, std::shared_ptr<Hall> hall) : rank_(rank), hall_(std::move(hall)) {}

  int rank() const override { return rank_; }
  const std::vector<Peer>& members() const override { return hall_->members; }
  void listen(Accept accept) override {
    std::vector<std::pair<int, std::shared_ptr<Connection>>> early;
    {
      const std::lock_guard lock(hall_->mutex);
      Hall::Place& place = hall_->places[static_cast<size_t>(rank_)];
      place.accept = accept;
      early.swap(place.early);
    }
    for (auto& [from, connection] : early) accept(from, std::move(connection));
  }
  std::shared_ptr<Connection> connect(int rank, Deadline) override {
    auto [ours, theirs] = connect_in_process(hall_->members[static_cast<size_t>(rank_)],
                                             hall_->members[static_cast<size_t>(rank)]);
    hall_->bring(rank, rank_, std::move(theirs));
    return ours;
  }

 private:
  const int rank_;
  const std::shared_ptr<Hall> hall_;
};

}  // namespace

std::shared_ptr<Rendezvous> make_mesh(int rank, std::vector<Peer> members,
                                      std::vector<std::shared_ptr<Connection>> connections) {
  return std::make_shared<Mesh>(rank, std::move(members), std::move(connections));
}

std::vector<std::shared_ptr<Rendezvous>> meet_in_process(std::vector<Peer> members) {
  const auto hall = std::make_shared<Hall>(std::move(members));
  std::vector<std::shared_ptr<Rendezvous>> all;
  for (size_t i = 0; i < hall->members.size(); ++i) {
    all.push_back(std::make_shared<InProcessMember>(static_cast<int>(i), hall));
  }
  return all;
}

}  // namespace cohort::internal
