#pragma once

#include <memory>
#include <vector>

#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"
#include "distribute/slow_worker.h"
#include "ops/worker_port.h"

namespace cohort::internal {

// What the workers of a strategy compute together, each with what its own replicas made of their
// values: at once, or as nodes where a graph is being built. All workers call the same in the same
// order. Nodes go on to find it when the workers form a new group.
class WorkerCollectives final : private WorkerPort {
 public:
  // `meetings` is told how long the calls take.
  explicit WorkerCollectives(std::shared_ptr<MeetingClock> meetings)
      : meetings_(std::move(meetings)) {}

  void set_group(Communicator workers) { workers_ = std::move(workers); }

  // Sum, Min, Max or Product of each value over the workers; rows are joined.
  std::vector<Gradient> reduce(ReduceOp op, const std::vector<Gradient>& values,
                               const CommunicationOptions& options);
  // The same where some may be undefined, or rows, here and not on other workers: as
  // fill_from_workers(). Nodes cannot make up for a difference, since they have one form: there the
  // workers compare purposes, which must say what this one has.
  std::vector<Gradient> reduce_some(ReduceOp op, std::vector<Gradient> values,
                                    const std::vector<bool>& lacks,
                                    const CommunicationOptions& options);
  // Everybody's `value`, one after the other along `axis`. InvalidArgument, naming the workers,
  // when dtypes, ranks or other sizes differ.
  Tensor gather(const Tensor& value, int axis, const CommunicationOptions& options);
  // The first worker's `value`.
  Tensor from_first(const Tensor& value, const CommunicationOptions& options);

 private:
  std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                 const CommunicationOptions& options) override;
  Tensor all_gather(const Tensor& value, int axis, const CommunicationOptions& options) override;
  Tensor broadcast(const Tensor& value, const CommunicationOptions& options) override;
  // As nodes.
  std::vector<Gradient> trace_reduce(ReduceOp op, const std::vector<Gradient>& values,
                                     const CommunicationOptions& options) const;

  const std::shared_ptr<MeetingClock> meetings_;
  Communicator workers_;
  const WorkerPortEntry entry_{*this};
};

}  // namespace cohort::internal
