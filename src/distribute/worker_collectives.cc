#include "distribute/worker_collectives.h"

#include <algorithm>

#include "collectives/access.h"
#include "distribute/worker_reductions.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

bool is_symbolic(const Gradient& value) {
  return value.is_sparse() ? value.slices().values.is_symbolic() : value.dense().is_symbolic();
}

// Whether a call becomes a node: a value is one already, or a graph is being built.
bool becomes_node(std::span<const Gradient> values) {
  return thread_dispatch().builder != nullptr ||
         std::any_of(values.begin(), values.end(), is_symbolic);
}

}  // namespace

std::vector<Gradient> WorkerCollectives::reduce(ReduceOp op, const std::vector<Gradient>& values,
                                                const CommunicationOptions& options,
                                                const std::string& what) {
  if (becomes_node(values)) return trace_reduce(op, values, options, what);
  const MeetingClock::Scope meeting(*meetings_);
  return reduce_over_workers(workers_, op, values, options);
}

Tensor WorkerCollectives::gather(const Tensor& value, int axis,
                                 const CommunicationOptions& options) {
  const Gradient one(value);
  if (becomes_node({&one, 1})) return worker_all_gather(entry_.number(), value, axis, options);
  return all_gather(value, axis, options);
}

Tensor WorkerCollectives::from_first(const Tensor& value, const CommunicationOptions& options) {
  const Gradient one(value);
  if (becomes_node({&one, 1})) return worker_broadcast(entry_.number(), value, options);
  return broadcast(value, options);
}

std::vector<Gradient> WorkerCollectives::trace_reduce(ReduceOp op,
                                                      const std::vector<Gradient>& values,
                                                      const CommunicationOptions& options,
                                                      const std::string& what) const {
  const int64_t port = entry_.number();
  const auto joins_rows = [&](const Gradient& value) {
    return value.is_sparse() && op == ReduceOp::Sum;
  };
  std::vector<Tensor> dense;
  for (const Gradient& value : values) {
    if (!joins_rows(value)) dense.push_back(value.dense());
  }
  // First of all, because there `what` is compared.
  if (!dense.empty()) dense = worker_all_reduce(port, op, dense, what, options);
  std::vector<Gradient> results;
  size_t next = 0;
  for (const Gradient& value : values) {
    if (!joins_rows(value)) {
      results.emplace_back(dense[next++]);
      continue;
    }
    const IndexedSlices& own = value.slices();
    results.emplace_back(IndexedSlices{worker_all_gather(port, own.values, 0, options),
                                       worker_all_gather(port, own.indices, 0, options),
                                       own.dense_shape});
  }
  return results;
}

std::vector<Tensor> WorkerCollectives::all_reduce(ReduceOp op, std::span<const Tensor> values,
                                                  const std::string& what,
                                                  const CommunicationOptions& options) {
  const MeetingClock::Scope meeting(*meetings_);
  return all_reduce_named(workers_, std::vector<Tensor>(values.begin(), values.end()), op, what,
                          collective_options(options));
}

Tensor WorkerCollectives::all_gather(const Tensor& value, int axis,
                                     const CommunicationOptions& options) {
  const MeetingClock::Scope meeting(*meetings_);
  return gather_over_workers(workers_, value, axis, options);
}

Tensor WorkerCollectives::broadcast(const Tensor& value, const CommunicationOptions& options) {
  const MeetingClock::Scope meeting(*meetings_);
  return workers_.broadcast(value, 0, collective_options(options));
}

}  // namespace cohort::internal
