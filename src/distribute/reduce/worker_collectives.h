#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "base/activity.h"
#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"
#include "ops/collective_ports.h"

namespace cohort::internal {

// Throws FailedPrecondition on every worker, naming two workers that differ, unless `text` is the
// same on all workers.
void check_same_on_workers(Communicator& workers, const std::string& what, const std::string& text);

// The texts of all workers, by rank.
std::vector<std::string> texts_of_workers(Communicator& workers, const std::string& text,
                                          const CommunicationOptions& how = {});

// How long this worker has been in calls that the workers make together. Thread-safe.
class GroupWaitClock {
 public:
  using Clock = std::chrono::steady_clock;
  // Counts for as long as it lives.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(GroupWaitClock& clock) : clock_(clock) {}
    ~Scope() {
      const Clock::duration lasted = Clock::now() - began_;
      clock_.total_ += lasted.count();
      note_group_wait(lasted);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GroupWaitClock& clock_;
    const Clock::time_point began_ = Clock::now();
  };

  Clock::duration total() const { return Clock::duration(total_.load()); }

 private:
  std::atomic<Clock::rep> total_{0};
};

// What the workers of a strategy compute together, each with the results of its own replicas. A
// call computes at once, or adds nodes where a graph is being built. All workers make the same
// calls in the same order. A node finds this object by a number, also after the workers have formed
// a new group.
class WorkerCollectives final : private WorkerPort {
 public:
  // `group_wait` counts how long the calls take.
  explicit WorkerCollectives(std::shared_ptr<GroupWaitClock> group_wait)
      : group_wait_(std::move(group_wait)) {}

  void set_group(Communicator workers) { workers_ = std::move(workers); }

  // Sum, Min, Max or Product of each value over the workers; rows are joined.
  std::vector<Gradient> reduce(ReduceOp op, const std::vector<Gradient>& values,
                               const CommunicationOptions& options);
  // The same for gradients that may be undefined, or rows, on some workers only. `lacks` says of
  // each gradient whether only some replicas of this worker have it.
  // Where workers differ, Sum takes a missing gradient as zeros, and dense gradients as rows. A
  // gradient that no worker has stays undefined. Other reductions throw InvalidArgument on all
  // workers where workers differ or a gradient is lacking.
  // A node has one form and cannot make up for a difference. So where a graph is being built the
  // workers compare their purposes, and the caller must open one that says which gradients this
  // worker has.
  std::vector<Gradient> reduce_some(ReduceOp op, std::vector<Gradient> values,
                                    const std::vector<bool>& lacks,
                                    const CommunicationOptions& options);
  // The values of all workers, one after the other along `axis`. Throws InvalidArgument, naming the
  // workers, when dtypes, ranks or sizes beside the axis differ.
  Tensor gather(const Tensor& value, int axis, const CommunicationOptions& options);
  // The first worker's `value`.
  Tensor from_first(const Tensor& value, const CommunicationOptions& options);

 private:
  std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                 const CommunicationOptions& options) override;
  Tensor all_gather(const Tensor& value, int axis, const CommunicationOptions& options) override;
  Tensor broadcast(const Tensor& value, const CommunicationOptions& options) override;
  IndexedSlices join_rows(ReduceOp op, const IndexedSlices& own, bool as_nodes,
                          const CommunicationOptions& options);

  const std::shared_ptr<GroupWaitClock> group_wait_;
  Communicator workers_;
  const WorkerPortEntry entry_{*this};
};

}  // namespace cohort::internal
