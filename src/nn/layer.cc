#include "nn/layer.h"

#include "base/raise.h"
#include "variables/variable_creators.h"

namespace cohort::internal {
namespace {

Variable make(const nn::Initializer& initializer, const Shape& shape, DType dtype,
              VariableOptions options, const void* first_call_of) {
  if (!is_floating(dtype)) {
    raise(Code::InvalidArgument, "[{}] a layer's dtype must be floating, got {}", options.name,
          to_string(dtype));
  }
  if (!initializer) {
    raise(Code::InvalidArgument, "[{}] the initializer is empty", options.name);
  }
  options.shape = shape;
  options.dtype = dtype;
  const Initializer value = [=] { return initializer(shape, dtype); };
  if (first_call_of == nullptr) return Variable(value, options);
  return Variable(Initializer(FirstCallInitializer{value, first_call_of}), options);
}

}  // namespace

void require_positive(std::string_view layer, std::string_view what, int64_t size) {
  if (size >= 1) return;
  raise(Code::InvalidArgument, "[{}] {} must be at least 1, got {}", layer, what, size);
}

Variable make_variable(std::string name, const nn::Initializer& initializer, const Shape& shape,
                       DType dtype, const void* first_call_of) {
  return make(initializer, shape, dtype, {.name = std::move(name)}, first_call_of);
}

Variable make_statistic(std::string name, const nn::Initializer& initializer, const Shape& shape,
                        DType dtype, const void* first_call_of) {
  return make(initializer, shape, dtype,
              {.name = std::move(name),
               .trainable = false,
               .synchronization = VariableSynchronization::OnRead,
               .aggregation = VariableAggregation::Mean},
              first_call_of);
}

void require_size(std::string_view layer, const Tensor& x, int axis, int64_t size,
                  std::string_view what) {
  const Shape shape = x.shape();
  if (!shape.has_rank()) return;
  const bool exists = axis < 0 ? shape.rank() >= -axis : shape.rank() > axis;
  if (exists && (shape[axis] == size || shape[axis] < 0)) return;
  raise(Code::InvalidArgument, "[{}] expected an input with {} {} (dimension {}), got shape {}",
        layer, size, what, axis, shape.to_string());
}

int64_t size_to_infer(std::string_view layer, const Tensor& x, int axis, std::string_view what) {
  const Shape shape = x.shape();
  const bool exists = shape.has_rank() && (axis < 0 ? shape.rank() >= -axis : shape.rank() > axis);
  if (exists && shape[axis] >= 0) return shape[axis];
  raise(Code::InvalidArgument,
        "[{}] the first call tells the number of {} (dimension {}), but its input has shape {}; "
        "give the number when the layer is made",
        layer, what, axis, shape.to_string());
}

void raise_not_built(std::string_view layer, std::string_view what) {
  raise(Code::FailedPrecondition,
        "[{}] was made without the number of {} and has no variables before its first call; call "
        "the model on one batch first, or give the number",
        layer, what);
}

}  // namespace cohort::internal
