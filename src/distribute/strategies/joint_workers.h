#pragma once

#include <chrono>

#include "cohort/collective.h"
#include "cohort/internal/gradient_listener.h"
#include "cohort/strategy.h"

namespace cohort::internal {

// A strategy whose replicas are in several processes that run the same program and compute
// together. RemoteWorkers are the other kind.
class JointWorkers {
 public:
  virtual ~JointWorkers() = default;

  virtual int num_workers() const = 0;
  virtual int worker_id() const = 0;
  // The group of the workers, by their ids.
  virtual Communicator communicator() const = 0;

  // Whether other workers make the same calls now.
  virtual bool meets_others() const = 0;
  // Whether `holds`, a boolean scalar, is true on all workers. All workers call it together.
  virtual Tensor on_all_workers(const Tensor& holds) = 0;
  // A replica calls this after an update that `optimizers_count` counts. Returns how many such
  // updates the workers have made since they formed their group. All workers get the same number,
  // while the optimizer of a restarted worker may count from 0 again.
  virtual int64_t count_update(const Variable& optimizers_count, size_t local_replica) = 0;
  // What listens to the tapes of a replica; null when nothing does.
  virtual GradientListener* gradient_listener(size_t local_replica) const = 0;

  // After a worker was lost: leaves the group and waits until all workers, with the successor of
  // the lost worker, have formed a new group. Every worker that is left calls it. Variables keep
  // their values. Throws what the constructor of the strategy throws. After that this worker is in
  // no group: what workers do together throws Unavailable until another rejoin() succeeds.
  virtual void rejoin(std::chrono::milliseconds timeout) = 0;
  // Says that this process, which has joined workers that had trained before, now has their values.
  // Before this call it makes variables without the other workers.
  virtual void end_newcomer() = 0;
};

// Null for strategies of one process, or one worker.
inline JointWorkers* joint_workers(StrategyExtended& extended) {
  auto* const workers = dynamic_cast<JointWorkers*>(&extended);
  return workers != nullptr && workers->num_workers() > 1 ? workers : nullptr;
}

}  // namespace cohort::internal
