#include "train/layer.h"

#include "base/raise.h"

namespace cohort::internal {
namespace {

Variable make(const nn::Initializer& initializer, const Shape& shape, DType dtype,
              VariableOptions options) {
  if (!is_floating(dtype)) {
    raise(Code::InvalidArgument, "[{}] a layer's dtype must be floating, got {}", options.name,
          to_string(dtype));
  }
  if (!initializer) {
    raise(Code::InvalidArgument, "[{}] the initializer is empty", options.name);
  }
  options.shape = shape;
  options.dtype = dtype;
  return Variable(Initializer([=] { return initializer(shape, dtype); }), options);
}

}  // namespace

void require_positive(std::string_view layer, std::string_view what, int64_t size) {
  if (size >= 1) return;
  raise(Code::InvalidArgument, "[{}] {} must be at least 1, got {}", layer, what, size);
}

Variable make_variable(std::string name, const nn::Initializer& initializer, const Shape& shape,
                       DType dtype) {
  VariableOptions options;
  options.name = std::move(name);
  return make(initializer, shape, dtype, std::move(options));
}

Variable make_statistic(std::string name, const nn::Initializer& initializer, const Shape& shape,
                        DType dtype) {
  VariableOptions options;
  options.name = std::move(name);
  options.trainable = false;
  options.synchronization = VariableSynchronization::OnRead;
  options.aggregation = VariableAggregation::Mean;
  return make(initializer, shape, dtype, std::move(options));
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

}  // namespace cohort::internal
