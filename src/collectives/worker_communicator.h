#pragma once

#include "cohort/collective.h"
#include "membership/membership.h"

namespace cohort::internal {

// The workers that train together, as a communicator. A worker that is lost, or silent for too
// long, closes the communicator of every worker with its name. Thread-safe.
class WorkerCommunicator {
 public:
  struct Options {
    Membership::Options start = {};
    std::chrono::milliseconds silence_limit{10'000};
  };
  // Waits for all workers. Throws as Membership and Communicator do.
  WorkerCommunicator(const WorkerList& workers, const Options& options);
  ~WorkerCommunicator();  // leaves; the address is free afterwards

  const Membership& membership() const { return membership_; }
  Communicator& communicator() { return communicator_; }

 private:
  Membership membership_;
  Communicator communicator_;
};

}  // namespace cohort::internal
