#pragma once

#include "cohort/element.h"
#include "data/structure.h"

namespace cohort::data::internal {

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

}  // namespace cohort::data::internal
