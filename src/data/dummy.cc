#include "data/dummy.h"

#include "data/iterator.h"
#include "ops/spec_list.h"
#include "tensor/memory.h"

namespace cohort::data::internal {
namespace {

Shape dummy_shape(const Shape& shape) {
  if (!shape.has_rank()) {
    raise(Code::FailedPrecondition,
          "[DistributeDataset] a replica without data needs an empty element, but the number of "
          "dimensions of the elements is not known");
  }
  Shape dummy = shape;
  if (shape.is_fully_known()) return shape.rank() == 0 ? shape : shape.with(0, 0);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] < 0) dummy = dummy.with(axis, 0);
  }
  return dummy;
}

}  // namespace

ElementSpec with_unknown_rows(const ElementSpec& spec) {
  std::vector<TensorSpec> tensors = spec.tensors();
  for (TensorSpec& tensor : tensors) {
    if (tensor.shape.rank() > 0) tensor.shape = tensor.shape.with(0, Shape::kUnknownDim);
  }
  return ElementSpec(spec, std::move(tensors));
}

std::vector<int64_t> packed_tensors(const ElementSpec& spec) {
  cohort::internal::Specs specs;
  for (const TensorSpec& tensor : spec.tensors()) specs.push_back({tensor.dtype, tensor.shape});
  return cohort::internal::pack_specs(specs);
}

std::optional<ElementSpec> spec_or_probe(const Dataset& dataset) {
  if (std::optional<ElementSpec> spec = dataset.element_spec()) return spec;
  const std::optional<Element> first = look_at_first(dataset);
  if (!first) return std::nullopt;
  return with_unknown_rows(ElementSpec(*first));
}

Element dummy_element(const ElementSpec& spec) {
  std::vector<Tensor> tensors;
  for (const TensorSpec& tensor : spec.tensors()) {
    tensors.push_back(cohort::internal::allocate_zeros(tensor.dtype, dummy_shape(tensor.shape)));
  }
  return ElementAccess::make(spec.structure(), std::move(tensors));
}

}  // namespace cohort::data::internal
