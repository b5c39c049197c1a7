#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/element.h"

namespace cohort::data::internal {

// How an element nests its tensors. An element is this tree and the tensors of its leaves from left
// to right, so that stages that treat all tensors alike ignore the tree.
struct Structure {
  // Sequence: the tensors are the elements of a dataset in memory. Dealt: each part is the element
  // of one replica. A Dealt structure never leaves the process, so parse_structure() does not read
  // it.
  enum class Kind : uint8_t { Leaf, Tuple, Map, Sequence, Dealt };

  Kind kind = Kind::Leaf;
  std::vector<std::string> names = {};  // of a map's parts, sorted
  std::vector<std::shared_ptr<const Structure>> parts = {};
  size_t leaves = 1;

  friend bool operator==(const Structure& a, const Structure& b);
};
using StructurePtr = std::shared_ptr<const Structure>;

StructurePtr leaf_structure();
StructurePtr tuple_structure(std::vector<StructurePtr> parts);
// The names must be sorted and different.
StructurePtr map_structure(std::vector<std::string> names, std::vector<StructurePtr> parts);

StructurePtr sequence_structure(size_t count);
StructurePtr dealt_structure(std::vector<StructurePtr> parts);
// Whether a part is a sequence.
bool holds_sequences(const Structure& structure);

// Returns the opening and the closing bracket of a kind.
std::string_view brackets(Structure::Kind kind);
// "Tensor", "(Tensor, Tensor)", "{'image': Tensor}", "[Tensor, Tensor]".
std::string to_string(const Structure& structure);
// Reads what to_string writes; throws InvalidArgument.
StructurePtr parse_structure(const std::string& text);

// Access to the private parts of an Element.
struct ElementAccess {
  static Element make(StructurePtr structure, std::vector<Tensor> tensors) {
    return Element(std::move(structure), std::move(tensors));
  }
  static const StructurePtr& structure(const Element& element) { return element.structure_; }
  static const std::vector<Tensor>& tensors(const Element& element) { return element.tensors_; }
  static std::vector<Tensor>& tensors(Element& element) { return element.tensors_; }
};

inline const std::vector<Tensor>& tensors_of(const Element& element) {
  return ElementAccess::tensors(element);
}
inline const StructurePtr& structure_of(const Element& element) {
  return ElementAccess::structure(element);
}
inline const StructurePtr& structure_of(const ElementSpec& spec) {
  return cohort::internal::Access::structure(spec);
}
inline ElementSpec make_spec(StructurePtr structure, std::vector<TensorSpec> tensors) {
  return cohort::internal::Access::make<ElementSpec>(std::move(structure), std::move(tensors));
}

// Returns an element of the same structure whose tensors are change(tensor).
template <typename Change>
Element with_each_tensor(const Element& element, const Change& change) {
  std::vector<Tensor> tensors;
  tensors.reserve(tensors_of(element).size());
  for (const Tensor& tensor : tensors_of(element)) tensors.push_back(change(tensor));
  return ElementAccess::make(structure_of(element), std::move(tensors));
}

// Makes one element of several, each of which is for one replica.
Element dealt_element(const std::vector<Element>& parts);

// Throws InvalidArgument "[stage] ..." unless both have the same structure.
void check_same_structure(std::string_view stage, const Structure& expected,
                          const Structure& found);

// Returns `spec` with an unknown first dimension of each tensor.
ElementSpec with_unknown_rows(const ElementSpec& spec);

// Returns the dtypes and shapes as numbers: see pack_specs() in ops/op.h.
std::vector<int64_t> packed_tensors(const ElementSpec& spec);

// Returns an element without samples, for a replica without data: zeros and empty strings. Unknown
// dimensions become 0; if all dimensions are known, the first one does. Throws FailedPrecondition
// if the rank of a tensor is unknown.
Element empty_element(const ElementSpec& spec);

}  // namespace cohort::data::internal
