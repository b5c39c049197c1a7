#include "data/element_access.h"

#include <algorithm>

#include "base/raise.h"
#include "ops/op.h"
#include "tensor/memory.h"

namespace cohort::data::internal {

using cohort::internal::raise;

bool operator==(const Structure& a, const Structure& b) {
  if (&a == &b) return true;
  return a.kind == b.kind && a.names == b.names && a.leaves == b.leaves &&
         std::ranges::equal(a.parts, b.parts,
                            [](const auto& x, const auto& y) { return *x == *y; });
}

StructurePtr leaf_structure() {
  static const StructurePtr leaf = std::make_shared<Structure>();
  return leaf;
}

namespace {

StructurePtr make(Structure::Kind kind, std::vector<std::string> names,
                  std::vector<StructurePtr> parts) {
  auto made = std::make_shared<Structure>();
  made->kind = kind;
  made->leaves = 0;
  for (const StructurePtr& part : parts) made->leaves += part->leaves;
  made->names = std::move(names);
  made->parts = std::move(parts);
  return made;
}

// Parses the text that to_string() makes.
class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  StructurePtr whole() {
    StructurePtr parsed = one(0);
    if (at_ != text_.size()) fail();
    return parsed;
  }

 private:
  static constexpr int kMaxDepth = 64;

  [[noreturn]] void fail() const {
    raise(Code::InvalidArgument, "[Dataset] '{}' does not describe the structure of an element",
          text_.substr(0, 200));
  }
  bool take(std::string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  StructurePtr one(int depth) {
    if (depth > kMaxDepth) fail();
    if (take("Tensor")) return leaf_structure();
    if (take("(")) return tuple(depth);
    if (take("{")) return map(depth);
    if (take("[")) return sequence();
    fail();
  }
  StructurePtr tuple(int depth) {
    std::vector<StructurePtr> parts;
    while (!take(")")) {
      if (!parts.empty() && !take(", ")) fail();
      if (!parts.empty() && take(")")) break;  // "(Tensor, )" has one part
      parts.push_back(one(depth + 1));
    }
    return tuple_structure(std::move(parts));
  }
  StructurePtr sequence() {
    size_t count = 0;
    while (!take("]")) {
      if (count++ > 0 && !take(", ")) fail();
      if (!take("Tensor")) fail();
    }
    return sequence_structure(count);
  }
  StructurePtr map(int depth) {
    std::vector<std::string> names;
    std::vector<StructurePtr> parts;
    while (!take("}")) {
      if (!parts.empty() && !take(", ")) fail();
      names.push_back(name());
      if (!take(": ") || (names.size() > 1 && names[names.size() - 2] >= names.back())) fail();
      parts.push_back(one(depth + 1));
    }
    return map_structure(std::move(names), std::move(parts));
  }
  std::string name() {
    if (!take("'")) fail();
    std::string found;
    while (!take("'")) {
      if (take("\\") && at_ == text_.size()) fail();
      if (at_ >= text_.size()) fail();
      found += text_[at_++];
    }
    return found;
  }

  const std::string& text_;
  size_t at_ = 0;
};

std::string quoted(const std::string& name) {
  std::string text = "'";
  for (const char c : name) {
    if (c == '\'' || c == '\\') text += '\\';
    text += c;
  }
  return text + "'";
}

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

StructurePtr tuple_structure(std::vector<StructurePtr> parts) {
  return make(Structure::Kind::Tuple, {}, std::move(parts));
}

StructurePtr map_structure(std::vector<std::string> names, std::vector<StructurePtr> parts) {
  return make(Structure::Kind::Map, std::move(names), std::move(parts));
}

StructurePtr sequence_structure(size_t count) {
  return make(Structure::Kind::Sequence, {}, std::vector(count, leaf_structure()));
}

StructurePtr dealt_structure(std::vector<StructurePtr> parts) {
  return make(Structure::Kind::Dealt, {}, std::move(parts));
}

bool holds_sequences(const Structure& structure) {
  if (structure.kind == Structure::Kind::Sequence) return true;
  return std::ranges::any_of(structure.parts,
                             [](const auto& part) { return holds_sequences(*part); });
}

std::string_view brackets(Structure::Kind kind) {
  switch (kind) {
    case Structure::Kind::Map:
      return "{}";
    case Structure::Kind::Sequence:
      return "[]";
    case Structure::Kind::Dealt:
      return "<>";
    default:
      return "()";
  }
}

std::string to_string(const Structure& structure) {
  if (structure.kind == Structure::Kind::Leaf) return "Tensor";
  const bool map = structure.kind == Structure::Kind::Map;
  const std::string_view around = brackets(structure.kind);
  std::string text(1, around[0]);
  for (size_t i = 0; i < structure.parts.size(); ++i) {
    if (i > 0) text += ", ";
    if (map) text += quoted(structure.names[i]) + ": ";
    text += to_string(*structure.parts[i]);
  }
  if (around[0] == '(' && structure.parts.size() == 1) text += ", ";
  return text + around[1];
}

StructurePtr parse_structure(const std::string& text) { return Parser(text).whole(); }

ElementSpec with_unknown_rows(const ElementSpec& spec) {
  std::vector<TensorSpec> tensors = spec.tensors();
  for (TensorSpec& tensor : tensors) {
    if (tensor.shape.rank() > 0) tensor.shape = tensor.shape.with(0, Shape::kUnknownDim);
  }
  return ElementSpec(spec, std::move(tensors));
}

std::vector<int64_t> packed_tensors(const ElementSpec& spec) {
  return cohort::internal::pack_specs(spec.tensors());
}

Element empty_element(const ElementSpec& spec) {
  std::vector<Tensor> tensors;
  for (const TensorSpec& tensor : spec.tensors()) {
    tensors.push_back(cohort::internal::allocate_zeros(tensor.dtype, empty_shape(tensor.shape)));
  }
  return ElementAccess::make(structure_of(spec), std::move(tensors));
}

}  // namespace cohort::data::internal
