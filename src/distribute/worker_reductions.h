#pragma once

#include <vector>

#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"

// What workers compute together, each with what its own replicas made of their values. All workers
// call these at the same time.
namespace cohort::internal {

CollectiveOptions collective_options(const CommunicationOptions& options);

// Sum, Min, Max or Product of each value over the workers; rows are joined.
std::vector<Gradient> reduce_over_workers(Communicator& workers, ReduceOp op,
                                          const std::vector<Gradient>& values,
                                          const CommunicationOptions& options);

// Gradients of which some may be undefined, or rows, here and not on other workers. Where workers
// differ, Sum takes what one does not have as zeros, and dense values as rows; what no worker has
// stays undefined. Other reductions, and `lacks` (for each: only some replicas of this worker have
// it), are InvalidArgument on all workers then. Returns what reduce_over_workers can reduce.
std::vector<Gradient> fill_from_workers(Communicator& workers, ReduceOp op,
                                        std::vector<Gradient> values,
                                        const std::vector<bool>& lacks,
                                        const CommunicationOptions& options);

// Everybody's `value`, one after the other along `axis`. InvalidArgument, naming the workers, when
// dtypes, ranks or other sizes differ.
Tensor gather_over_workers(Communicator& workers, const Tensor& value, int axis,
                           const CommunicationOptions& options);

// FailedPrecondition on every worker, with the names of two, unless `text` is the same on all.
void check_same_on_workers(Communicator& workers, const std::string& what, const std::string& text);

// Everybody's text, by rank.
std::vector<std::string> texts_of_workers(Communicator& workers, const std::string& text,
                                          const CollectiveOptions& how = {});

}  // namespace cohort::internal
