#include "ops/random_draw.h"

#include "base/raise.h"

namespace cohort::internal {

Key key_of(const Kernel& k) {
  const at::Tensor key = in(k, 0).contiguous();
  const int64_t* values = key.data_ptr<int64_t>();
  return {static_cast<uint64_t>(values[0]), static_cast<uint64_t>(values[1])};
}

void check_key(const OpInputs& inputs) {
  if (inputs.dtype(0) == kInt64 && inputs.shape(0).is_compatible_with(Shape{2})) return;
  raise(Code::InvalidArgument, "[{}] the key must be int64 of shape (2,), got {} of shape {}",
        inputs.op, to_string(inputs.dtype(0)), inputs.shape(0).to_string());
}

Specs infer_draw(const OpInputs& inputs) {
  check_key(inputs);
  const auto& shape = inputs.attrs.get<Shape>("shape");
  const auto dtype = inputs.attrs.get<DType>("dtype");
  if (!shape.is_fully_known()) {
    raise(Code::InvalidArgument, "[{}] every size must be 0 or more, got shape {}", inputs.op,
          shape.to_string());
  }
  require_allocatable(inputs.op, shape, dtype);
  return {{dtype, shape}};
}

at::Tensor empty_draw(const Kernel& k, DType dtype) {
  return at::empty(sizes(k.attrs.get<Shape>("shape")), to_aten(dtype));
}

}  // namespace cohort::internal
