#pragma once

#include <memory>

#include "cohort/collective.h"
#include "rpc/heartbeat.h"
#include "workers/roll_call.h"

namespace cohort::internal {

// This worker among all that train together: what they compute with, and who watches over them. A
// worker that is lost, or silent for too long, closes the communicator on all of them with its
// name. Thread-safe.
class WorkerGroup {
 public:
  struct Options {
    WorkerRollCall::Options start = {};
    std::chrono::milliseconds silence_limit{10'000};
  };
  // Waits for all workers. Throws as WorkerRollCall and Communicator do.
  WorkerGroup(const WorkerList& workers, const Options& options);
  ~WorkerGroup();  // leaves; the address is free afterwards

  Communicator& communicator() { return communicator_; }
  // How many of the workers are on this machine.
  size_t workers_on_host() const { return workers_on_host_; }
  // Whether others have trained before and this worker has not: it has their values to get.
  bool is_newcomer() const { return is_newcomer_; }
  const std::string& name_of(int worker) const;

 private:
  void watch(const Options& options);

  WorkerRollCall roll_call_;
  const std::vector<Introduction> all_;
  size_t workers_on_host_ = 0;
  bool is_newcomer_ = false;
  Communicator communicator_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace cohort::internal
