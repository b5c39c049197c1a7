#include "distribute/worker_collectives.h"

#include <algorithm>

#include "cohort/ops.h"
#include "distribute/worker_reductions.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

bool is_present(const Gradient& value) { return value.defined(); }
bool is_symbolic(const Gradient& value) {
  if (!value.defined()) return false;
  return value.is_sparse() ? value.slices().values.is_symbolic() : value.dense().is_symbolic();
}

// Whether a call becomes a node: a value is one already, or a graph is being built.
bool becomes_node(std::span<const Gradient> values) {
  return thread_dispatch().builder != nullptr ||
         std::any_of(values.begin(), values.end(), is_symbolic);
}

}  // namespace

std::vector<Gradient> WorkerCollectives::reduce(ReduceOp op, const std::vector<Gradient>& values,
                                                const CommunicationOptions& options) {
  if (becomes_node(values)) return trace_reduce(op, values, options);
  const MeetingClock::Scope meeting(*meetings_);
  return reduce_over_workers(workers_, op, values, options);
}

std::vector<Gradient> WorkerCollectives::reduce_some(ReduceOp op, std::vector<Gradient> values,
                                                     const std::vector<bool>& lacks,
                                                     const CommunicationOptions& options) {
  const bool as_nodes = becomes_node(values);
  if (!as_nodes) {
    const MeetingClock::Scope meeting(*meetings_);
    values = fill_from_workers(workers_, op, std::move(values), lacks, options);
  }
  std::vector<Gradient> present;
  std::copy_if(values.begin(), values.end(), std::back_inserter(present), is_present);
  // Others may have some: they meet, and see that.
  if (present.empty() && as_nodes && !values.empty()) {
    const Tensor nothing = zeros(Shape{});
    worker_all_reduce(entry_.number(), op, {&nothing, 1}, options);
  }
  present = reduce(op, present, options);
  auto next = present.begin();
  for (Gradient& value : values) {
    if (value.defined()) value = std::move(*next++);
  }
  return values;
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
                                                      const CommunicationOptions& options) const {
  const int64_t port = entry_.number();
  const auto joins_rows = [&](const Gradient& value) {
    return value.is_sparse() && op == ReduceOp::Sum;
  };
  std::vector<Tensor> dense;
  for (const Gradient& value : values) {
    if (!joins_rows(value)) dense.push_back(value.dense());
  }
  if (!dense.empty()) dense = worker_all_reduce(port, op, dense, options);
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
                                                  const CommunicationOptions& options) {
  const MeetingClock::Scope meeting(*meetings_);
  return workers_.all_reduce(std::vector<Tensor>(values.begin(), values.end()), op,
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
