#include "cohort/accumulator.h"

#include "graph/handles.h"
#include "ops/all_ops.h"

namespace cohort {
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

using internal::apply;

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
