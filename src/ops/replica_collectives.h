#pragma once

#include <span>
#include <vector>

#include "cohort/cross_device_ops.h"
#include "ops/dispatch.h"

// Reductions and gathers between the replicas of a run, as ops: what a replica calls at once, under
// a tape, or in a function that it traces.
namespace cohort::internal {

// How an op that runs in a replica reaches the other replicas. The strategies implement it and set
// the finder.
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
ReplicaPort* replica_port();
void set_replica_port_finder(ReplicaPort* (*finder)());

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

}  // namespace cohort::internal
