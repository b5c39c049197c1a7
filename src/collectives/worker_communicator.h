#pragma once

#include "collectives/communicator_access.h"
#include "membership/membership.h"

namespace cohort::internal {

// The workers that train together, as a communicator. A worker that is lost, or silent for too
// long, closes the communicator of every worker with its name. Thread-safe.
class WorkerCommunicator {
 public:
  struct Options {
    Membership::Options start = {};  // without the engine
    EngineChoice engine = {};
    std::chrono::milliseconds silence_limit{10'000};
  };
  // Waits for all workers. Throws as Membership and Communicator do.
  WorkerCommunicator(const WorkerList& workers, const Options& options)
      : membership_(workers, with_engine(options)) {
    const std::shared_ptr<Links> links = Links::open(membership_.group());
    // Before the first rendezvous: a worker that is lost there would cost the others the time
    // limit.
    membership_.watch(options.silence_limit,
                      [links](int rank, const Status& why) { links->lost(rank, why); });
    communicator_ =
        make_communicator(links, {.meeting_time = options.start.timeout, .engine = options.engine});
  }
  // Leaves; the address is free afterwards.
  ~WorkerCommunicator() {
    membership_.end_watch();
    communicator_.close();
  }

  const Membership& membership() const { return membership_; }
  Communicator& communicator() { return communicator_; }

 private:
  static Membership::Options with_engine(const Options& options) {
    Membership::Options start = options.start;
    start.engine = options.engine.name;
    return start;
  }

  Membership membership_;
  Communicator communicator_;
};

}  // namespace cohort::internal
