#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace cohort::data::internal
