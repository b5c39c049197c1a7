// Taking elements from an iterator. What an element is made of is in attributes: a handle in a
// graph does not know it.

#include <algorithm>

#include "base/raise.h"
#include "ops/element_source.h"
#include "ops/infer.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

ElementLayout layout_of(const Attrs& attrs) {
  return {attrs.get<std::string>("structure"), attrs.integers("components")};
}

Attrs attrs_of(const ElementLayout& layout) {
  return {{"structure", layout.structure}, {"components", layout.components}};
}

bool is_declared(const ElementLayout& layout, const Attrs& attrs) {
  return layout.components == attrs.integers("components") &&
         layout.structure == attrs.get<std::string>("structure");
}

// The source of the handle. Throws InvalidArgument unless the op was made for its elements.
ElementSource& declared_source(const Kernel& k) {
  ElementSource& source = source_of(k.inputs[0]);
  const ElementLayout& found = source.layout();
  if (is_declared(found, k.attrs) || is_compatible(found, layout_of(k.attrs))) return source;
  raise(Code::InvalidArgument, "[IteratorNext] iterator '{}' gives {}, but the op was made for {}",
        source.name(), to_string(found), to_string(layout_of(k.attrs)));
}

// The source may describe its elements less exactly than the op that uses them was made for.
void check_element(const ElementSource& source, std::span<const Tensor> element,
                   const Specs& wanted) {
  if (element.size() != wanted.size()) {
    raise(Code::InvalidArgument, "[IteratorNext] iterator '{}' gave {} tensors instead of {}",
          source.name(), element.size(), wanted.size());
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Spec found = Spec::of(element[i]);
    if (found.is_compatible_with(wanted[i])) continue;
    raise(Code::InvalidArgument,
          "[IteratorNext] tensor {} of an element of iterator '{}' is {}, but the op was made for "
          "{}",
          i, source.name(), found.to_string(), wanted[i].to_string());
  }
}

Specs declared_components(const Attrs& attrs) {
  return unpack_specs("IteratorNext", attrs.integers("components"));
}

Specs infer_next(const OpInputs& inputs) {
  require_handle(inputs, "an iterator's");
  return declared_components(inputs.attrs);
}

// The checked tensors of the next element; nullopt at the end.
std::optional<std::vector<Tensor>> take(const Kernel& k) {
  ElementSource& source = declared_source(k);
  std::optional<std::vector<Tensor>> element = source.next_tensors();
  if (element) check_element(source, *element, declared_components(k.attrs));
  return element;
}

void compute_next(Kernel& k) {
  std::optional<std::vector<Tensor>> element = take(k);
  if (!element) {
    raise(Code::OutOfRange,
          "[IteratorNext] iterator '{}' has no more elements; repeat() the dataset, or end the "
          "loop at this error (OutOfRange)",
          source_of(k.inputs[0]).name());
  }
  std::ranges::move(*element, k.outputs.begin());
}

// Stands where an element would: the smallest tensor that the declaration allows.
Tensor placeholder_of(const Spec& spec) {
  Shape shape = spec.shape.has_rank() ? spec.shape : Shape{0};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] < 0) shape = shape.with(axis, 0);
  }
  return allocate_zeros(spec.dtype, shape);
}

void compute_next_optional(Kernel& k) {
  std::optional<std::vector<Tensor>> element = take(k);
  k.outputs[0] = Tensor(element.has_value());
  if (element) {
    std::ranges::move(*element, k.outputs.begin() + 1);
  } else {
    std::ranges::transform(declared_components(k.attrs), k.outputs.begin() + 1, placeholder_of);
  }
}

constexpr OpDef next_op(std::string_view name, Infer infer, Compute compute) {
  return {.name = name,
          .inputs = 1,
          .dtypes = kResourceType,
          .attrs = {{"structure", AttrKind::Text}, {"components", AttrKind::Ints}},
          .infer = infer,
          .compute = compute,
          .no_gradient_because = "a dataset's elements have no gradient",
          .traits = Trait::HasEffect | Trait::MayWait | Trait::HostOnly};
}

void compute_start(Kernel& k) {
  auto* maker = dynamic_cast<ElementSourceMaker*>(resource_of(k.inputs[0]).get());
  if (maker == nullptr) {
    raise(Code::InvalidArgument, "[StartIterator] the handle is not a dataset's");
  }
  k.outputs[0] = make_resource(maker->make_source());
}

}  // namespace

extern constexpr OpDef kIteratorNext = next_op("IteratorNext", infer_next, compute_next);

extern constexpr OpDef kIteratorNextOptional = next_op(
    "IteratorNextOptional",
    [](const OpInputs& inputs) -> Specs {
      Specs specs = infer_next(inputs);
      specs.insert(specs.begin(), {kBool, Shape{}});
      return specs;
    },
    compute_next_optional);

extern constexpr OpDef kStartIterator{
    .name = "StartIterator",
    .inputs = 1,
    .dtypes = kResourceType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "a dataset's");
      return {{kResource, Shape{}}};
    },
    .compute = compute_start,
    .no_gradient_because = "a handle has no value",
    .traits = Trait::HasEffect | Trait::HostOnly,
};

std::string to_string(const ElementLayout& layout) {
  return layout.structure + " of " + to_string(unpack_specs("Iterator", layout.components));
}

bool is_compatible(const ElementLayout& found, const ElementLayout& wanted) {
  return found.structure == wanted.structure &&
         std::ranges::equal(unpack_specs("Iterator", found.components),
                            unpack_specs("Iterator", wanted.components), &Spec::is_compatible_with);
}

ElementSource& source_of(const Tensor& handle) {
  auto* source = dynamic_cast<ElementSource*>(resource_of(handle).get());
  if (source == nullptr) raise(Code::InvalidArgument, "[Iterator] the handle is not an iterator's");
  return *source;
}

std::vector<Tensor> iterator_next(const Tensor& handle, const ElementLayout& layout, Site site) {
  return apply_many(kIteratorNext, {&handle, 1}, attrs_of(layout), site);
}

std::vector<Tensor> iterator_next_optional(const Tensor& handle, const ElementLayout& layout,
                                           Site site) {
  return apply_many(kIteratorNextOptional, {&handle, 1}, attrs_of(layout), site);
}

Tensor start_iterator(const Tensor& maker, Site site) {
  return apply(kStartIterator, {&maker, 1}, {}, site);
}

bool takes_element(const OpDef& op) {
  return &op == &kIteratorNext || &op == &kIteratorNextOptional;
}

}  // namespace cohort::internal
