#include "base/raise.h"
#include "cohort/queue.h"
#include "graph/function_graph.h"
#include "ops/all_ops.h"
#include "ops/fifo_queue.h"
#include "ops/op.h"

namespace cohort {

namespace internal {
namespace {

// The capacity as the attribute of the op.
int64_t capacity_of(const FifoQueueOptions& options) {
  if (!options.capacity || *options.capacity < 0) return QueueState::kNoLimit;
  if (*options.capacity > 0) return *options.capacity;
  raise(Code::InvalidArgument,
        "[Queue] the capacity of '{}' must be at least 1, got {}; leave it empty for no limit",
        options.name, *options.capacity);
}

}  // namespace
}  // namespace internal

using internal::apply;
using internal::apply_many;

FifoQueue::FifoQueue(const FifoQueueOptions& options, Site site)
    : components_(internal::pack_specs(options.components)) {
  internal::NamedHandle made = internal::add_handle(
      internal::kQueueHandle, options.name, options.shared_name,
      {{"capacity", internal::capacity_of(options)}, {"components", components_}}, site);
  name_ = std::move(made.state);
  handle_ = std::move(made.handle);
}

Tensor FifoQueue::enqueue(const std::vector<Tensor>& element, Site site) {
  return apply(internal::kQueueEnqueue, internal::joined({{&handle_, 1}, element}),
               {{"queue", name_}, {"components", components_}}, site);
}

Tensor FifoQueue::enqueue_many(const std::vector<Tensor>& rows, Site site) {
  return apply(internal::kQueueEnqueueMany, internal::joined({{&handle_, 1}, rows}),
               {{"queue", name_}, {"components", components_}}, site);
}

std::vector<Tensor> FifoQueue::dequeue(Site site) {
  return apply_many(internal::kQueueDequeue, {&handle_, 1},
                    {{"queue", name_}, {"components", components_}}, site);
}

std::vector<Tensor> FifoQueue::dequeue_many(int64_t count, Site site) {
  return apply_many(internal::kQueueDequeueMany, {&handle_, 1},
                    {{"queue", name_}, {"components", components_}, {"count", count}}, site);
}

Tensor FifoQueue::size(Site site) {
  return internal::keep_question(internal::kQueueSize, handle_, site);
}

Tensor FifoQueue::close(const QueueCloseOptions& options, Site site) {
  return apply(internal::kQueueClose, {handle_},
               {{"cancel_pending_enqueues", options.cancel_pending_enqueues}}, site);
}

namespace internal {

AccumulatorHandle::AccumulatorHandle(const AccumulatorOptions& options, bool sparse, Site site)
    : dtype_(options.dtype), shape_(options.shape) {
  NamedHandle made = add_handle(kAccumulatorHandle, options.name, options.shared_name,
                                {{"dtype", dtype_},
                                 {"shape", shape_},
                                 {"mean", options.reduction == AccumulatorReduction::Mean},
                                 {"sparse", sparse}},
                                site);
  name_ = std::move(made.state);
  handle_ = std::move(made.handle);
}

Tensor AccumulatorHandle::set_global_step(const Tensor& step, Site site) {
  return apply(kAccumulatorSetStep, {handle_, step}, {}, site);
}

Tensor AccumulatorHandle::limit_required(const Tensor& most, Site site) {
  return apply(kAccumulatorLimit, {handle_, most}, {}, site);
}

Tensor AccumulatorHandle::cancel_pending_takes(Site site) {
  return apply(kAccumulatorCancelTakes, {handle_}, {}, site);
}

Tensor AccumulatorHandle::num_accumulated(Site site) {
  return keep_question(kAccumulatorCount, handle_, site);
}

}  // namespace internal

Tensor ConditionalAccumulator::apply_gradient(const Tensor& gradient, const Tensor& local_step,
                                              Site site) {
  return apply(internal::kAccumulatorApply, {handle_, gradient, local_step},
               {{"accumulator", name_}, {"dtype", dtype_}, {"shape", shape_}}, site);
}

Tensor ConditionalAccumulator::take_gradient(const Tensor& num_required, Site site) {
  return apply(internal::kAccumulatorTake, {handle_, num_required},
               {{"dtype", dtype_}, {"shape", shape_}}, site);
}

Tensor SparseConditionalAccumulator::apply_gradient(const IndexedSlices& gradient,
                                                    const Tensor& local_step, Site site) {
  return apply(internal::kSparseAccumulatorApply,
               {handle_, gradient.values, gradient.indices, local_step},
               {{"accumulator", name_}, {"dtype", dtype_}, {"shape", shape_}}, site);
}

IndexedSlices SparseConditionalAccumulator::take_gradient(const Tensor& num_required, Site site) {
  const Tensor inputs[] = {handle_, num_required};
  const std::vector<Tensor> taken = internal::apply_many(
      internal::kSparseAccumulatorTake, inputs, {{"dtype", dtype_}, {"shape", shape_}}, site);
  return {taken[0], taken[1], shape_};
}

}  // namespace cohort
