#pragma once

#include <span>
#include <vector>

#include "cohort/cross_device_ops.h"
#include "ops/dispatch.h"

// Reductions and gathers between the replicas of a run, as ops: what a replica calls at once, under
// a tape, or in a function that it traces.
namespace cohort::internal {

// How an op that runs in a replica reaches the others. Implemented by the strategies, which say
// once how to find it.
class ReplicaPort {
 public:
  virtual ~ReplicaPort() = default;
  virtual int num_replicas() const = 0;
  // One result per value, of reduced dtype. All replicas must call it. Unrecorded.
  virtual std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                         const CommunicationOptions& options) = 0;
  // All replicas' values along `axis`, and which rows of that are this one's (a vector of int64).
  virtual std::vector<Tensor> all_gather(const Tensor& value, int axis,
                                         const CommunicationOptions& options) = 0;
  // Whether the replicas, one after the other, add their nodes to this graph: then the two above
  // add nodes as well, instead of being one.
  virtual bool is_shared(const GraphBuilder* graph) const = 0;
};

// The port of the replica that this thread runs; null outside of replicas.
ReplicaPort* replica_port();
void set_replica_port_finder(ReplicaPort* (*finder)());

// Every replica gets `op` over all replicas' values. Differentiable: the gradient of Sum and Mean
// is the same reduction of the incoming gradients; of Min and Max it goes, summed over the
// replicas, to those that hold the extreme, in equal shares. Outside of replicas there is one.
std::vector<Tensor> replica_all_reduce(ReduceOp op, std::span<const Tensor> values,
                                       const CommunicationOptions& options, Site site = {});
// Tells this thread's tapes of an all-reduce that did not come through that.
void record_all_reduce(ReduceOp op, const CommunicationOptions& options,
                       std::span<const Tensor> inputs, std::span<const Tensor> outputs);
// Every replica gets all values, one after the other along `axis`. The gradient is the own part of
// the sum over the replicas.
Tensor replica_all_gather(const Tensor& value, int axis, const CommunicationOptions& options,
                          Site site = {});

}  // namespace cohort::internal
