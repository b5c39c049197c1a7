// Taking elements from an iterator. What an element is made of travels as attributes: a handle in a
// graph does not know it.

#include <algorithm>

#include "base/raise.h"
#include "ops/element_source.h"
#include "ops/spec_list.h"

namespace cohort::internal {
namespace {

ElementLayout layout_of(const Attrs& attrs) {
  return {attrs.get<std::string>("structure"), attrs.integers("components")};
}

bool is_declared(const ElementLayout& layout, const Attrs& attrs) {
  return layout.components == attrs.integers("components") &&
         layout.structure == attrs.get<std::string>("structure");
}

// The source behind the handle, which must give what the op was made for.
ElementSource& declared_source(const Kernel& k) {
  ElementSource& source = source_of(k.inputs[0]);
  const ElementLayout& found = source.layout();
  if (is_declared(found, k.attrs) || is_compatible(found, layout_of(k.attrs))) return source;
  raise(Code::InvalidArgument, "[IteratorNext] iterator '{}' gives {}, but the op was made for {}",
        source.name(), to_string(found), to_string(layout_of(k.attrs)));
}

// An element may be anything that its description allows; what follows was made for less.
void check_element(const ElementSource& source, std::span<const Tensor> element,
                   const Specs& wanted) {
  if (element.size() != wanted.size()) {
    raise(Code::InvalidArgument, "[IteratorNext] iterator '{}' gave {} tensors instead of {}",
          source.name(), element.size(), wanted.size());
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const TensorBody& found = body(element[i]);
    if (found.dtype == wanted[i].dtype && found.shape.is_compatible_with(wanted[i].shape)) continue;
    raise(Code::InvalidArgument,
          "[IteratorNext] tensor {} of an element of iterator '{}' is {} {}, but the op was made "
          "for {} {}",
          i, source.name(), to_string(found.dtype), found.shape.to_string(),
          to_string(wanted[i].dtype), wanted[i].shape.to_string());
  }
}

Specs infer_next(const OpInputs& inputs) {
  if (inputs.dtype(0) != kResource) {
    raise(Code::InvalidArgument, "[{}] input 0 must be an iterator's handle, got {}", inputs.op,
          to_string(inputs.dtype(0)));
  }
  return unpack_specs(inputs.op, inputs.attrs.integers("components"));
}

void compute_next(Kernel& k) {
  ElementSource& source = declared_source(k);
  std::optional<std::vector<Tensor>> element = source.next_tensors();
  if (!element) {
    raise(Code::OutOfRange, "[IteratorNext] iterator '{}' has no more elements", source.name());
  }
  check_element(source, *element, unpack_specs("IteratorNext", k.attrs.integers("components")));
  std::ranges::move(*element, k.outputs.begin());
}

}  // namespace

extern constexpr OpDef kIteratorNext{
    .name = "IteratorNext",
    .dtypes = kResourceType,
    .infer = infer_next,
    .compute = compute_next,
    .gradient = nullptr,
    .no_gradient_because = "a dataset's elements have no gradient",
    .stateful = true,
};

std::string to_string(const ElementLayout& layout) {
  return layout.structure + " of " + to_string(unpack_specs("Iterator", layout.components));
}

bool is_compatible(const ElementLayout& found, const ElementLayout& wanted) {
  const auto may_be = [](const Spec& a, const Spec& b) {
    return a.dtype == b.dtype && a.shape.is_compatible_with(b.shape);
  };
  return found.structure == wanted.structure &&
         std::ranges::equal(unpack_specs("Iterator", found.components),
                            unpack_specs("Iterator", wanted.components), may_be);
}

ElementSource& source_of(const Tensor& handle) {
  auto* source = dynamic_cast<ElementSource*>(resource_of(handle).get());
  if (source == nullptr) raise(Code::InvalidArgument, "[Iterator] the handle is not an iterator's");
  return *source;
}

std::vector<Tensor> iterator_next(const Tensor& handle, const ElementLayout& layout, Site site) {
  return apply_many(kIteratorNext, {&handle, 1},
                    {{"structure", layout.structure}, {"components", layout.components}}, site);
}

}  // namespace cohort::internal
