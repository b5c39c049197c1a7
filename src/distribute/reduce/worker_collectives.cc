#include "distribute/reduce/worker_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "base/worker_outcomes.h"
#include "cohort/internal/worker_agreement.h"
#include "cohort/ops.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/tensor_reduction.h"
#include "distribute/strategies/worker_strategies.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

// The order of axes that brings `axis` to the front, or from there back to its place.
std::vector<int64_t> front_and_back(int rank, int axis, bool back) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + (back ? 1 : axis), order.begin() + axis + 1);
  return order;
}

// Sizes along the axis may differ.
void check_gatherable_everywhere(Communicator& workers, const Tensor& value, int axis,
                                 const CommunicationOptions& how) {
  const Shape shape = value.shape();
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes[static_cast<size_t>(axis)] = Shape::kUnknownDim;
  const std::string own = to_string(value.dtype()) + " " + Shape(sizes).to_string();
  const std::vector<std::string> all =
      texts_of_workers(workers, fmt::format("{}\n{}\n{}", own, axis, describe(value)), how);
  for (int rank = 1; rank < workers.size(); ++rank) {
    const std::string& first = all[0];
    const std::string& other = all[static_cast<size_t>(rank)];
    if (first.substr(0, first.rfind('\n')) == other.substr(0, other.rfind('\n'))) continue;
    raise(Code::InvalidArgument,
          "[gather] the values of {} ({}) and {} ({}) cannot be put together along axis {}: dtype, "
          "rank and all other sizes must be the same",
          workers.member(0), first.substr(first.rfind('\n') + 1), workers.member(rank),
          other.substr(other.rfind('\n') + 1), axis);
  }
}

bool is_symbolic(const Gradient& value) {
  if (!value.defined()) return false;
  return value.is_sparse() ? value.slices().values.is_symbolic() : value.dense().is_symbolic();
}

// Whether a call becomes a node: a value is one already, or a graph is being built.
bool becomes_node(std::span<const Gradient> values) {
  return thread_dispatch().builder != nullptr || std::ranges::any_of(values, is_symbolic);
}

bool is_by_itself(StrategyExtended& extended) {
  const JointWorkers* workers = joint_workers(extended);
  return workers != nullptr && !workers->meets_others();
}

}  // namespace

std::vector<std::string> texts_of_workers(Communicator& workers, const std::string& text,
                                          const CommunicationOptions& how) {
  // all_gather joins the texts, so the sizes are exchanged before.
  const auto size = Tensor::from(std::vector<int64_t>{static_cast<int64_t>(text.size())});
  const std::vector<int64_t> sizes = workers.all_gather(size, how).to_vector<int64_t>();
  const Tensor bytes = Tensor::from(std::vector<uint8_t>(text.begin(), text.end()));
  const std::vector<uint8_t> joined = workers.all_gather(bytes, how).to_vector<uint8_t>();
  std::vector<std::string> texts;
  auto at = joined.begin();
  for (const int64_t each : sizes) {
    texts.emplace_back(at, at + each);
    at += each;
  }
  return texts;
}

void check_same_on_workers(Communicator& workers, const std::string& what,
                           const std::string& text) {
  const std::vector<std::string> all = texts_of_workers(workers, text);
  for (int rank = 1; rank < workers.size(); ++rank) {
    if (all[static_cast<size_t>(rank)] == all[0]) continue;
    raise(Code::FailedPrecondition,
          "[{}] the workers build different programs: {} has {}, {} has {}", what,
          workers.member(0), all[0], workers.member(rank), all[static_cast<size_t>(rank)]);
  }
}

std::vector<Gradient> WorkerCollectives::reduce(ReduceOp op, const std::vector<Gradient>& values,
                                                const CommunicationOptions& options) {
  const bool as_nodes = becomes_node(values);
  // Nodes gather rows, which is their sum; for other reductions they make the rows dense.
  const auto has_rows = [&](const Gradient& value) {
    return value.is_sparse() && (!as_nodes || op == ReduceOp::Sum);
  };
  std::vector<Tensor> dense;
  for (const Gradient& value : values) {
    if (!has_rows(value)) dense.push_back(value.dense());
  }
  if (!dense.empty()) {
    dense = as_nodes ? worker_all_reduce(entry_.number(), op, dense, options)
                     : all_reduce(op, dense, options);
  }
  std::vector<Gradient> results;
  auto next = dense.begin();
  for (const Gradient& value : values) {
    results.push_back(has_rows(value) ? Gradient(join_rows(op, value.slices(), as_nodes, options))
                                      : Gradient(*next++));
  }
  return results;
}

IndexedSlices WorkerCollectives::join_rows(ReduceOp op, const IndexedSlices& own, bool as_nodes,
                                           const CommunicationOptions& options) {
  if (as_nodes) {
    return {worker_all_gather(entry_.number(), own.values, 0, options),
            worker_all_gather(entry_.number(), own.indices, 0, options), own.dense_shape};
  }
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  return workers_.all_reduce(own, op, options);
}

std::vector<Gradient> WorkerCollectives::reduce_some(ReduceOp op, std::vector<Gradient> values,
                                                     const std::vector<bool>& lacks,
                                                     const CommunicationOptions& options) {
  const bool as_nodes = becomes_node(values);
  if (!as_nodes) {
    const GroupWaitClock::Scope rendezvous(*group_wait_);
    values = fill_from_workers(workers_, op, std::move(values), lacks, options);
  }
  std::vector<Gradient> present;
  std::ranges::copy_if(values, std::back_inserter(present), &Gradient::defined);
  // Other workers may have gradients: all workers meet here and see that.
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

std::vector<Tensor> WorkerCollectives::all_reduce(ReduceOp op, std::span<const Tensor> values,
                                                  const CommunicationOptions& options) {
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  return workers_.all_reduce(std::vector<Tensor>(values.begin(), values.end()), op, options);
}

Tensor WorkerCollectives::all_gather(const Tensor& value, int axis,
                                     const CommunicationOptions& options) {
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  const Gradient one(value);
  check_gatherable("gather", {&one, 1}, axis);
  check_gatherable_everywhere(workers_, value, axis, options);
  if (axis == 0) return workers_.all_gather(value, options);
  const int rank = value.rank();
  const Tensor joined =
      workers_.all_gather(transpose(value, front_and_back(rank, axis, false)), options);
  return transpose(joined, front_and_back(rank, axis, true));
}

Tensor WorkerCollectives::broadcast(const Tensor& value, const CommunicationOptions& options) {
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  return workers_.broadcast(value, 0, options);
}

void on_each_worker(StrategyExtended& extended, const std::string& what,
                    const std::function<void()>& part) {
  if (is_by_itself(extended)) return part();
  const std::exception_ptr thrown = capture_exception(part);
  throw_first_failure(what, thrown, extended.gather_from_workers(outcome_text(thrown), what));
}

Tensor value_of_first_worker(StrategyExtended& extended, const std::string& what,
                             const Tensor& value) {
  if (is_by_itself(extended)) return value;
  const CollectivePurpose purpose(what);
  return extended.from_first_worker(value);
}

}  // namespace cohort::internal
