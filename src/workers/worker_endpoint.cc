#include "workers/worker_endpoint.h"

#include <algorithm>
#include <random>

#include "base/raise.h"
#include "rpc/endpoint.h"

namespace cohort::internal {
namespace {

uint64_t random_number() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

// Connections of other workers, which may come before the group meets.
struct WorkerEndpoint::Arrivals {
  std::mutex mutex;
  std::vector<std::shared_ptr<Connection>> early;                // guarded by mutex
  std::function<void(const std::shared_ptr<Connection>&)> take;  // guarded by mutex

  void bring(const std::shared_ptr<Connection>& connection) {
    std::function<void(const std::shared_ptr<Connection>&)> taker;
    {
      const std::lock_guard lock(mutex);
      if (!take) return early.push_back(connection);
      taker = take;
    }
    taker(connection);
  }
};

class WorkerEndpoint::Meeting : public Rendezvous {
 public:
  Meeting(int rank, std::vector<Peer> members, std::weak_ptr<Party> party,
          std::shared_ptr<Arrivals> arrivals)
      : rank_(rank),
        members_(std::move(members)),
        party_(std::move(party)),
        arrivals_(std::move(arrivals)) {}

  int rank() const override { return rank_; }
  const std::vector<Peer>& members() const override { return members_; }

  void listen(Accept accept) override {
    const auto take = [accept, members = members_](const std::shared_ptr<Connection>& connection) {
      for (size_t rank = 0; rank < members.size(); ++rank) {
        // Another incarnation is of another group; dropping the connection refuses it.
        if (is_same(connection->peer(), members[rank])) {
          return accept(static_cast<int>(rank), connection);
        }
      }
    };
    std::vector<std::shared_ptr<Connection>> early;
    {
      const std::lock_guard lock(arrivals_->mutex);
      arrivals_->take = take;
      early.swap(arrivals_->early);
    }
    for (const auto& connection : early) take(connection);
  }

  std::shared_ptr<Connection> connect(int rank, Deadline deadline) override {
    const Peer& wanted = members_[static_cast<size_t>(rank)];
    const auto party = party_.lock();
    if (!party) raise(Code::Unavailable, "[Collective] this worker has left the group");
    auto connection = party->connect(wanted.address, deadline);
    if (is_same(connection->peer(), wanted)) return connection;
    raise(Code::Unavailable, "[Collective] {} at {} has been restarted", wanted.name,
          wanted.address);
  }

 private:
  static bool is_same(const Peer& one, const Peer& other) {
    return one.name == other.name && one.incarnation == other.incarnation;
  }

  const int rank_;
  const std::vector<Peer> members_;
  const std::weak_ptr<Party> party_;
  const std::shared_ptr<Arrivals> arrivals_;
};

WorkerEndpoint::WorkerEndpoint(const WorkerList& workers, const Credentials& credentials,
                               Visited visited)
    : workers_(workers.workers),
      visited_(std::move(visited)),
      arrivals_(std::make_shared<Arrivals>()) {
  party_ = make_endpoint(
      {.self = {.name = workers.own().name,
                .incarnation = random_number(),
                .address = workers.own().address},
       .credentials = credentials,
       .spans_hosts = workers.spans_hosts},
      [this](std::shared_ptr<Connection> connection) { accept(std::move(connection)); });
}

WorkerEndpoint::~WorkerEndpoint() { party_->stop(); }

void WorkerEndpoint::accept(std::shared_ptr<Connection> connection) {
  const std::string& name = connection->peer().name;
  const bool is_worker = std::any_of(workers_.begin(), workers_.end(),
                                     [&](const auto& worker) { return worker.name == name; });
  if (is_worker) return arrivals_->bring(connection);
  {
    const std::lock_guard lock(mutex_);
    visitors_.push_back(connection);
  }
  const std::weak_ptr<Connection> from = connection;
  connection->start({.received =
                         [this, from](const Message& message) {
                           if (const auto visitor = from.lock()) visited_(visitor, message);
                         },
                     .ended = [](const Status&) {}});
}

std::shared_ptr<Rendezvous> WorkerEndpoint::meet(int rank, std::vector<Peer> members) {
  return std::make_shared<Meeting>(rank, std::move(members), party_, arrivals_);
}

}  // namespace cohort::internal
