#include "data/empty_element.h"

#include "data/node.h"
#include "tensor/memory.h"

namespace cohort::data::internal {
namespace {

Shape empty_shape(const Shape& shape) {
  if (!shape.has_rank()) {
    raise(Code::FailedPrecondition,
          "[DistributeDataset] a replica without data needs an empty element, but the number of "
          "dimensions of the elements is not known");
  }
  Shape empty = shape;
  if (shape.is_fully_known()) return shape.rank() == 0 ? shape : shape.with(0, 0);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] < 0) empty = empty.with(axis, 0);
  }
  return empty;
}

}  // namespace

Element empty_element(const ElementSpec& spec) {
  std::vector<Tensor> tensors;
  for (const TensorSpec& tensor : spec.tensors()) {
    tensors.push_back(cohort::internal::allocate_zeros(tensor.dtype, empty_shape(tensor.shape)));
  }
  return ElementAccess::make(spec.structure(), std::move(tensors));
}

}  // namespace cohort::data::internal
