#pragma once

#include "cohort/element.h"
#include "data/structure.h"

namespace cohort::data::internal {

// The one way into and out of an Element's private part.
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

// One element of several, one for each replica.
Element dealt_element(const std::vector<Element>& parts);

// Throws InvalidArgument "[stage] ..." unless both have the same structure.
void check_same_structure(std::string_view stage, const Structure& expected,
                          const Structure& found);

}  // namespace cohort::data::internal
