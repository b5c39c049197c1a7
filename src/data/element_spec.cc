#include "data/element_spec.h"

#include "data/iterator.h"
#include "ops/op.h"

namespace cohort::data::internal {

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

}  // namespace cohort::data::internal
