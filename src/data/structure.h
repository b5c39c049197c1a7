#pragma once

#include <memory>
#include <string>
#include <vector>

namespace cohort::data::internal {

// How the tensors of an element hang together. An element is this tree and its leaves' tensors from
// left to right, so stages that treat all tensors alike never look at the tree.
struct Structure {
  enum class Kind : uint8_t { Leaf, Tuple, Map };

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

// "Tensor", "(Tensor, Tensor)", "{'image': Tensor}".
std::string to_string(const Structure& structure);
// Reads what to_string writes; throws InvalidArgument.
StructurePtr parse_structure(const std::string& text);

}  // namespace cohort::data::internal
