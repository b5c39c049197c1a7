#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "cohort/credentials.h"
#include "collectives/party_rendezvous.h"
#include "transport/party.h"
#include "workers/worker_list.h"

namespace cohort::internal {

// Where a worker is reached. Connections of other workers are for collectives; those of clients
// are visits, in which workers introduce themselves. Thread-safe.
class WorkerEndpoint {
 public:
  // Gets what visitors send, on threads of the endpoint.
  using Visited = std::function<void(const std::shared_ptr<Connection>&, const Message&)>;

  // Throws as make_endpoint.
  WorkerEndpoint(const WorkerList& workers, const Credentials& credentials, Visited visited);
  ~WorkerEndpoint();

  const Peer& self() const { return party_->self(); }
  // How the group of these members meets, of whom this is `rank`. Once.
  std::shared_ptr<Rendezvous> meet(int rank, std::vector<Peer> members);

 private:
  void accept(std::shared_ptr<Connection> connection);

  const std::vector<WorkerList::Worker> workers_;
  const Visited visited_;
  const MemberDoor door_;  // for workers, who may come before the group meets
  Mutex mutex_;
  std::vector<std::shared_ptr<Connection>> visitors_;  // guarded by mutex_
  std::shared_ptr<Party> party_;
};

}  // namespace cohort::internal
