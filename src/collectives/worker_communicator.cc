#include "collectives/worker_communicator.h"

#include "collectives/access.h"

namespace cohort::internal {

WorkerCommunicator::WorkerCommunicator(const WorkerList& workers, const Options& options)
    : membership_(workers, options.start),
      communicator_(
          make_communicator(membership_.group(), {.meeting_time = options.start.timeout})) {
  membership_.watch(options.silence_limit, [group = communicator_](int rank, const Status& why) {
    CollectiveAccess::group(group).links()->lost(rank, why);
  });
}

WorkerCommunicator::~WorkerCommunicator() {
  membership_.end_watch();
  communicator_.close();
}

}  // namespace cohort::internal
