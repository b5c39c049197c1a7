#include "tensor/on_device.h"

#include "tensor/aten.h"

namespace cohort::internal {
namespace {

std::shared_ptr<TensorBody> copy_of(const Tensor& tensor) {
  if (tensor.dtype() == kString) {
    auto made = std::make_shared<StringBody>();
    made->values = strings(tensor);
    return made;
  }
  auto made = std::make_shared<NumericBody>();
  made->value = aten(tensor);
  return made;
}

}  // namespace

Tensor on_device(const Tensor& tensor, const Device& device) {
  const TensorBody& held = body(tensor);
  if (held.device == &device || held.kind == TensorBody::Kind::Resource) return tensor;
  const std::shared_ptr<TensorBody> made = copy_of(tensor);
  made->kind = held.kind;
  made->dtype = held.dtype;
  made->weak = held.weak;
  made->shape = held.shape;
  made->device = &device;
  return TensorAccess::make(made);
}

}  // namespace cohort::internal
