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

  // Sum, Min, Max or Product of each value over the workers; rows are joined. As nodes the workers
  // also compare `what` the values are, in words for people.
  std::vector<Gradient> reduce(ReduceOp op, const std::vector<Gradient>& values,
                               const CommunicationOptions& options, const std::string& what = "");
  // Everybody's `value`, one after the other along `axis`. InvalidArgument, naming the workers,
  // when dtypes, ranks or other sizes differ.
  Tensor gather(const Tensor& value, int axis, const CommunicationOptions& options);
  // The first worker's `value`.
  Tensor from_first(const Tensor& value, const CommunicationOptions& options);

 private:
  std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                 const std::string& what,
                                 const CommunicationOptions& options) override;
  Tensor all_gather(const Tensor& value, int axis, const CommunicationOptions& options) override;
  Tensor broadcast(const Tensor& value, const CommunicationOptions& options) override;
  // As nodes.
  std::vector<Gradient> trace_reduce(ReduceOp op, const std::vector<Gradient>& values,
                                     const CommunicationOptions& options,
                                     const std::string& what) const;

  const std::shared_ptr<MeetingClock> meetings_;
  Communicator workers_;
  const WorkerPortEntry entry_{*this};
};

}  // namespace cohort::internal
