#include "train_loop/sync_replicas_graph.h"

namespace cohort::internal {
namespace {

using AnyAccumulator = std::variant<ConditionalAccumulator, SparseConditionalAccumulator>;

AnyAccumulator make(const std::string& name, const Variable& variable, bool sparse) {
  const AccumulatorOptions options{
      .dtype = variable.dtype(), .shape = variable.shape(), .name = name, .shared_name = name};
  if (sparse) return SparseConditionalAccumulator(options);
  return ConditionalAccumulator(options);
}

}  // namespace

GradientAccumulator::GradientAccumulator(const std::string& name, const Variable& variable,
                                         const Gradient& gradient)
    : anchor_(handle_of(variable)), accumulator_([&] {
        const Colocation together(anchor_);
        return make(name, variable, gradient.is_sparse());
      }()) {}

AccumulatorHandle& GradientAccumulator::handle() {
  return std::visit([](auto& kind) -> AccumulatorHandle& { return kind; }, accumulator_);
}

Tensor GradientAccumulator::apply(const Gradient& gradient, const Tensor& local_step) {
  const Colocation together(anchor_);
  if (auto* rows = std::get_if<SparseConditionalAccumulator>(&accumulator_)) {
    return rows->apply_gradient(gradient.slices(), local_step);
  }
  return std::get<ConditionalAccumulator>(accumulator_)
      .apply_gradient(gradient.dense(), local_step);
}

Gradient GradientAccumulator::take(int64_t count) {
  const Colocation together(anchor_);
  if (auto* rows = std::get_if<SparseConditionalAccumulator>(&accumulator_)) {
    return rows->take_gradient(count);
  }
  return std::get<ConditionalAccumulator>(accumulator_).take_gradient(count);
}

Tensor GradientAccumulator::set_global_step(const Tensor& step) {
  const Colocation together(anchor_);
  return handle().set_global_step(step);
}

Tensor GradientAccumulator::limit_required(const Tensor& most) {
  const Colocation together(anchor_);
  return handle().limit_required(most);
}

Tensor GradientAccumulator::cancel_pending_takes() {
  const Colocation together(anchor_);
  return handle().cancel_pending_takes();
}

}  // namespace cohort::internal
