#include "workers/worker_group.h"

#include <algorithm>

#include "collectives/access.h"
#include "rpc/endpoint.h"

namespace cohort::internal {
namespace {

std::vector<Peer> peers_of(const std::vector<Introduction>& all) {
  std::vector<Peer> peers;
  for (const Introduction& each : all) peers.push_back(each.peer);
  return peers;
}

}  // namespace

WorkerGroup::WorkerGroup(const WorkerList& workers, const Options& options)
    : roll_call_(workers, options.start), all_(roll_call_.run()) {
  const Introduction& own = all_[static_cast<size_t>(workers.self)];
  workers_on_host_ = static_cast<size_t>(std::count_if(
      all_.begin(), all_.end(), [&](const Introduction& each) { return each.host == own.host; }));
  is_newcomer_ = !own.resumes && std::any_of(all_.begin(), all_.end(),
                                             [](const auto& each) { return each.resumes; });
  communicator_ = make_communicator(
      roll_call_.endpoint().meet(workers.self, peers_of(all_)),
      {.share_memory = way_from_environment() != Way::Grpc, .meeting_time = options.start.timeout});
  watch(options);
}

WorkerGroup::~WorkerGroup() {
  heartbeat_.reset();
  communicator_.close();
}

void WorkerGroup::watch(const Options& options) {
  heartbeat_ = std::make_unique<Heartbeat>(
      HeartbeatOptions{.credentials = options.start.credentials, .limit = options.silence_limit});
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    if (rank == communicator_.rank()) continue;
    heartbeat_->watch(all_[static_cast<size_t>(rank)].peer,
                      [this, group = communicator_, rank](const Status& why) {
                        roll_call_.note_loss();
                        CollectiveAccess::group(group).links()->lost(rank, why);
                      });
  }
}

const std::string& WorkerGroup::name_of(int worker) const {
  return all_[static_cast<size_t>(worker)].peer.name;
}

}  // namespace cohort::internal
