#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cohort/cross_device_ops.h"
#include "cohort/tensor.h"

// What workers compute together as nodes of a graph: a function around a strategy's run() has one
// for each meeting of the workers, after each has combined what its own replicas gave.
namespace cohort::internal {

// How a node reaches the other workers. All workers call the same in the same order, for the
// purpose that the node was made for.
class WorkerPort {
 public:
  virtual ~WorkerPort() = default;
  // One result per value, of the same dtype and shape: Sum, Min, Max or Product over the workers.
  virtual std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                         const CommunicationOptions& options) = 0;
  // All workers' values along `axis`.
  virtual Tensor all_gather(const Tensor& value, int axis, const CommunicationOptions& options) = 0;
  // The first worker's value.
  virtual Tensor broadcast(const Tensor& value, const CommunicationOptions& options) = 0;
};

// Lets nodes find the port for as long as it lives, by a number that means nothing in other
// processes. No graph may run over its end.
class WorkerPortEntry {
 public:
  explicit WorkerPortEntry(WorkerPort& port);
  ~WorkerPortEntry();
  WorkerPortEntry(const WorkerPortEntry&) = delete;
  WorkerPortEntry& operator=(const WorkerPortEntry&) = delete;

  int64_t number() const { return number_; }

 private:
  const int64_t number_;
};

// The number of no port: one worker, which gets what it gives.
inline constexpr int64_t kNoWorkerPort = 0;

// At once, or as nodes where a graph is built. Without gradients: what replicas call in a graph is
// recorded as their own reduction, which has one.
std::vector<Tensor> worker_all_reduce(int64_t port, ReduceOp op, std::span<const Tensor> values,
                                      const CommunicationOptions& options);
Tensor worker_all_gather(int64_t port, const Tensor& value, int axis,
                         const CommunicationOptions& options);
Tensor worker_broadcast(int64_t port, const Tensor& value, const CommunicationOptions& options);

}  // namespace cohort::internal
