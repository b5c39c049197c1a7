#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/cross_device_ops.h"
#include "ops/dispatch.h"

namespace cohort::internal {

// Reductions and gathers between the replicas of a run, as ops: what a replica calls at once, under
// a tape, or in a function that it traces.

// How an op that runs in a replica reaches the other replicas. The strategies implement it.
class ReplicaPort {
 public:
  virtual ~ReplicaPort() = default;
  virtual int num_replicas() const = 0;
  // One result per value, of the reduced dtype. All replicas must call it. Tapes do not record it.
  virtual std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                         const CommunicationOptions& options) = 0;
  // Two tensors: the values of all replicas, joined along `axis`, and a vector of int64 that says
  // which rows of the first tensor are those of this replica.
  virtual std::vector<Tensor> all_gather(const Tensor& value, int axis,
                                         const CommunicationOptions& options) = 0;
  // Whether the replicas add their nodes to this graph, one replica after the other. Then the two
  // functions above add nodes, too, instead of becoming one node.
  virtual bool is_shared(const GraphBuilder* graph) const = 0;
};

// The port of the replica that this thread runs; null outside replicas.
// src/distribute/reduce/replica_calls.cc defines this function.
ReplicaPort* replica_port();

// Every replica gets `op` over all replicas' values. Differentiable: the gradient of Sum and Mean
// is the same reduction of the incoming gradients; of Min and Max it goes, summed over the
// replicas, to those that hold the extreme, in equal shares. Outside replicas the
// values are those of one replica.
std::vector<Tensor> replica_all_reduce(ReduceOp op, std::span<const Tensor> values,
                                       const CommunicationOptions& options, Site site = {});
// Tells the tapes of this thread of an all-reduce that replica_all_reduce() did not make.
void record_all_reduce(ReduceOp op, const CommunicationOptions& options,
                       std::span<const Tensor> inputs, std::span<const Tensor> outputs);
// Every replica gets the values of all replicas, one after the other along `axis`. The gradient is
// this replica's part of the sum over the replicas.
Tensor replica_all_gather(const Tensor& value, int axis, const CommunicationOptions& options,
                          Site site = {});

// What workers compute together as nodes of a graph: a function around a strategy's run() has one
// for each rendezvous of the workers, after each has combined what its own replicas gave.

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
