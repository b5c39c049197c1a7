#include "workers/worker_endpoint.h"

#include <algorithm>

#include "base/random_number.h"
#include "rpc/endpoint.h"

namespace cohort::internal {

WorkerEndpoint::WorkerEndpoint(const WorkerList& workers, const Credentials& credentials,
                               Visited visited)
    : workers_(workers.workers), visited_(std::move(visited)) {
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
  if (is_worker) return door_.accept()(std::move(connection));
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
  return door_.open(party_, rank, std::move(members));
}

}  // namespace cohort::internal
