#include "cohort/element.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "base/raise.h"
#include "cohort/internal/data_function.h"
#include "data/element_access.h"

namespace cohort::data {

using cohort::internal::raise;
using internal::Structure;
using internal::StructurePtr;

namespace {

constexpr size_t kCachedTuples = 8;

// Caches the structures of short tuples of tensors, because they are common.
StructurePtr flat_tuple(size_t count) {
  static const auto cached = [] {
    std::array<StructurePtr, kCachedTuples> made;
    for (size_t n = 0; n < made.size(); ++n) {
      made[n] = internal::tuple_structure(std::vector(n, internal::leaf_structure()));
    }
    return made;
  }();
  if (count < kCachedTuples) return cached[count];
  return internal::tuple_structure(std::vector(count, internal::leaf_structure()));
}

size_t leaf_offset(const Structure& structure, size_t part) {
  size_t offset = 0;
  for (size_t i = 0; i < part; ++i) offset += structure.parts[i]->leaves;
  return offset;
}

std::string describe(const Structure& structure) {
  return structure.kind == Structure::Kind::Leaf ? "one tensor" : internal::to_string(structure);
}

// Writes the tree with `leaf(i)` as the text of tensor i.
template <typename Leaf>
void write_tree(const Structure& structure, size_t& next, const Leaf& leaf, std::string& text) {
  if (structure.kind == Structure::Kind::Leaf) {
    text += leaf(next++);
    return;
  }
  const bool map = structure.kind == Structure::Kind::Map;
  const std::string_view around = internal::brackets(structure.kind);
  text += around[0];
  for (size_t i = 0; i < structure.parts.size(); ++i) {
    if (i > 0) text += ", ";
    if (map) text += "'" + structure.names[i] + "': ";
    write_tree(*structure.parts[i], next, leaf, text);
  }
  text += around[1];
}

}  // namespace

Element::Element() : structure_(flat_tuple(0)) {}

Element::Element(Tensor tensor) : structure_(internal::leaf_structure()) {
  if (!tensor.defined()) {
    raise(Code::FailedPrecondition, "[Element] the tensor holds nothing: it was never assigned");
  }
  tensors_.push_back(std::move(tensor));
}

Element::Element(StructurePtr structure, std::vector<Tensor> tensors)
    : structure_(std::move(structure)), tensors_(std::move(tensors)) {}

Element Element::tuple(std::vector<Element> parts) {
  std::vector<StructurePtr> structures;
  std::vector<Tensor> tensors;
  for (Element& part : parts) {
    structures.push_back(std::move(part.structure_));
    std::ranges::move(part.tensors_, std::back_inserter(tensors));
  }
  return {internal::tuple_structure(std::move(structures)), std::move(tensors)};
}

Element Element::tuple(std::vector<Tensor> parts) {
  for (const Tensor& part : parts) {
    if (part.defined()) continue;
    raise(Code::FailedPrecondition, "[Element] a part holds nothing: it was never assigned");
  }
  return {flat_tuple(parts.size()), std::move(parts)};
}

Element Element::map(std::vector<std::pair<std::string, Element>> parts) {
  std::ranges::stable_sort(parts, {}, &std::pair<std::string, Element>::first);
  std::vector<std::string> names;
  std::vector<StructurePtr> structures;
  std::vector<Tensor> tensors;
  for (auto& [name, part] : parts) {
    if (!names.empty() && names.back() == name) {
      raise(Code::InvalidArgument, "[Element] two parts of a map have the name '{}'", name);
    }
    names.push_back(name);
    structures.push_back(part.structure_);
    tensors.insert(tensors.end(), part.tensors_.begin(), part.tensors_.end());
  }
  return {internal::map_structure(std::move(names), std::move(structures)), std::move(tensors)};
}

bool Element::is_tensor() const { return structure_->kind == Structure::Kind::Leaf; }
bool Element::is_tuple() const { return structure_->kind == Structure::Kind::Tuple; }
bool Element::is_map() const { return structure_->kind == Structure::Kind::Map; }
bool Element::is_dataset() const { return structure_->kind == Structure::Kind::Sequence; }
size_t Element::size() const { return is_tensor() ? 1 : structure_->parts.size(); }

Element Element::operator[](size_t index) const {
  if (is_tensor() || index >= structure_->parts.size()) {
    raise(Code::InvalidArgument, "[Element] there is no part {} in {}", index,
          describe(*structure_));
  }
  const StructurePtr& part = structure_->parts[index];
  const auto first = tensors_.begin() + static_cast<ptrdiff_t>(leaf_offset(*structure_, index));
  return {part, {first, first + static_cast<ptrdiff_t>(part->leaves)}};
}

Element Element::operator[](std::string_view name) const {
  const auto& names = structure_->names;
  const auto found = std::ranges::lower_bound(names, name);
  if (found == names.end() || *found != name) {
    raise(Code::NotFound, "[Element] there is no part '{}' in {}", name, describe(*structure_));
  }
  return (*this)[static_cast<size_t>(found - names.begin())];
}

std::vector<std::string> Element::names() const { return structure_->names; }

Tensor Element::tensor() const {
  if (!is_tensor()) {
    raise(Code::InvalidArgument,
          "[Element] one tensor was asked for, but the element is {}; choose a part by its index "
          "or name",
          describe(*structure_));
  }
  return tensors_[0];
}

void Element::check_tensors(size_t count) const {
  if (!is_tensor() && tensors_.size() == count) return;
  raise(Code::InvalidArgument,
        "[Element] {} tensors were asked for, but the element is {}; unpack<N>() and "
        "Dataset::as<...>() must name as many parts as the element has",
        count, describe(*structure_));
}

std::string Element::to_string() const {
  std::string text;
  size_t next = 0;
  write_tree(
      *structure_, next, [&](size_t i) { return tensors_[i].to_string(); }, text);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Element& element) {
  return out << element.to_string();
}

ElementSpec::ElementSpec(const Element& element) : structure_(internal::structure_of(element)) {
  for (const Tensor& tensor : internal::tensors_of(element)) {
    tensors_.push_back({tensor.dtype(), tensor.shape()});
  }
}

std::vector<TensorSpec> ElementSpec::tensors() const { return tensors_; }

ElementSpec::ElementSpec(TensorSpec spec)
    : structure_(internal::leaf_structure()), tensors_{std::move(spec)} {}

ElementSpec::ElementSpec(const ElementSpec& like, std::vector<TensorSpec> tensors)
    : ElementSpec(like.structure_, std::move(tensors)) {}

ElementSpec::ElementSpec(StructurePtr structure, std::vector<TensorSpec> tensors)
    : structure_(std::move(structure)), tensors_(std::move(tensors)) {
  if (structure_->leaves != tensors_.size()) {
    raise(Code::InvalidArgument,
          "[ElementSpec] {} tensors were given for the structure {}, which needs {}",
          tensors_.size(), describe(*structure_), structure_->leaves);
  }
}

ElementSpec ElementSpec::tuple(std::vector<TensorSpec> tensors) {
  return {flat_tuple(tensors.size()), std::move(tensors)};
}

ElementSpec ElementSpec::map(std::vector<std::pair<std::string, TensorSpec>> tensors) {
  std::vector<std::pair<std::string, Element>> parts;
  for (const auto& [name, tensor] : tensors) parts.emplace_back(name, Element(Tensor(0)));
  std::ranges::stable_sort(tensors, {}, &std::pair<std::string, TensorSpec>::first);
  std::vector<TensorSpec> sorted;
  for (auto& [name, tensor] : tensors) sorted.push_back(std::move(tensor));
  return {ElementSpec(Element::map(std::move(parts))), std::move(sorted)};
}

std::string ElementSpec::to_string() const {
  std::string text;
  size_t next = 0;
  write_tree(
      *structure_, next, [&](size_t i) { return tensors_[i].to_string(); }, text);
  return text;
}

bool operator==(const ElementSpec& a, const ElementSpec& b) {
  return *a.structure_ == *b.structure_ && a.tensors_ == b.tensors_;
}

std::ostream& operator<<(std::ostream& out, const ElementSpec& spec) {
  return out << spec.to_string();
}

namespace internal {
namespace {

// For a function whose only argument is one tensor.
[[noreturn]] void raise_no_tensor(const Structure& element) {
  if (element.kind == Structure::Kind::Tuple) {
    raise(Code::InvalidArgument,
          "[Function] the function takes 1 argument, but the element has {0}: {1}; take {0} "
          "arguments, or one data::Element",
          element.parts.size(), describe(element));
  }
  raise(Code::InvalidArgument,
        "[Function] the function takes one tensor, but the element is {}; a function of one "
        "data::Element takes any element",
        describe(element));
}

}  // namespace

Element dealt_element(const std::vector<Element>& parts) {
  const Element all = Element::tuple(parts);
  return ElementAccess::make(dealt_structure(structure_of(all)->parts), tensors_of(all));
}

Element element_of_replica(const Element& element, size_t index) {
  return structure_of(element)->kind == Structure::Kind::Dealt ? element[index] : element;
}

Arguments::Arguments(const Element& element, size_t count) : element_(element), mode_(Mode::Whole) {
  const Structure& structure = *structure_of(element);
  const bool tuple = structure.kind == Structure::Kind::Tuple;
  if (tuple && structure.parts.size() == count) {
    mode_ = Mode::Parts;
  } else if (tuple && structure.leaves == count && count != 1) {
    mode_ = Mode::Tensors;
  } else if (count != 1) {
    raise(Code::InvalidArgument,
          "[Function] the function takes {} arguments, but the element is {}; a function of one "
          "data::Element takes any element",
          count, describe(structure));
  }
}

const Tensor& Arguments::tensor(size_t index) const {
  const auto& tensors = tensors_of(element_);
  const Structure& structure = *structure_of(element_);
  if (mode_ == Mode::Tensors) return tensors[index];
  const bool in_tuple = mode_ == Mode::Parts;
  const Structure& part = in_tuple ? *structure.parts[index] : structure;
  if (part.kind != Structure::Kind::Leaf) {
    if (mode_ == Mode::Whole) raise_no_tensor(structure);
    raise(Code::InvalidArgument,
          "[Function] argument {} must be one tensor, but that part of the element is {}", index,
          describe(part));
  }
  return tensors[in_tuple ? leaf_offset(structure, index) : 0];
}

void check_is_map(const Element& element) {
  if (element.is_map()) return;
  raise(Code::InvalidArgument,
        "[Function] an argument must be a map by name, but the element is {}",
        describe(*structure_of(element)));
}

Element Arguments::element(size_t index) const {
  if (mode_ == Mode::Parts) return element_[index];
  if (mode_ == Mode::Tensors) return Element(tensors_of(element_)[index]);
  return element_;
}

void check_same_structure(std::string_view stage, const Structure& expected,
                          const Structure& found) {
  if (expected == found) return;
  raise(Code::InvalidArgument, "[{}] elements differ in structure: {} and {}", stage,
        describe(expected), describe(found));
}

}  // namespace internal
}  // namespace cohort::data
