#include "collectives/worker_communicator.h"

#include "collectives/communicator_access.h"

namespace cohort::internal {

WorkerCommunicator::WorkerCommunicator(const WorkerList& workers, const Options& options)
    : membership_(workers, options.start) {
  const std::shared_ptr<Links> links = Links::open(membership_.group());
  // Before the first rendezvous: a worker that is lost there would cost the others the time limit.
  membership_.watch(options.silence_limit,
                    [links](int rank, const Status& why) { links->lost(rank, why); });
  communicator_ = make_communicator(links, {.meeting_time = options.start.timeout});
}

WorkerCommunicator::~WorkerCommunicator() {
  membership_.end_watch();
  communicator_.close();
}

}  // namespace cohort::internal
