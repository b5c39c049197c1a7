#include "ops/attrs.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxListLength = 1 << 20;

bool has_length(const AttrValue& value, size_t least, size_t most) {
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  return list != nullptr && list->size() >= least && list->size() <= most;
}

}  // namespace

bool Attrs::has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.first == name; });
}

const AttrValue& Attrs::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return entry.second;
  }
  raise(Code::Internal, "[Attrs] no attribute '{}'", name);
}

std::string_view to_string(AttrKind kind) {
  switch (kind) {
    case AttrKind::Bool:
      return "a bool";
    case AttrKind::Int:
      return "an integer";
    case AttrKind::Float:
      return "a number";
    case AttrKind::Text:
      return "a text";
    case AttrKind::DType:
      return "a dtype";
    case AttrKind::Shape:
      return "a shape";
    case AttrKind::Pair:
      return "two integers";
    case AttrKind::Axes:
      return "at most 8 integers";
    case AttrKind::Ints:
      return "a list of integers";
    case AttrKind::Tensor:
      return "a tensor";
    case AttrKind::Function:
      return "a function";
  }
  return "";
}

bool matches(AttrKind kind, const AttrValue& value) {
  switch (kind) {
    case AttrKind::Bool:
      return std::holds_alternative<bool>(value);
    case AttrKind::Int:
      return std::holds_alternative<int64_t>(value);
    case AttrKind::Float:
      return std::holds_alternative<double>(value);
    case AttrKind::Text:
      return std::holds_alternative<std::string>(value);
    case AttrKind::DType:
      return std::holds_alternative<DType>(value);
    case AttrKind::Shape:
      return std::holds_alternative<Shape>(value);
    case AttrKind::Pair:
      return has_length(value, 2, 2);
    case AttrKind::Axes:
      return has_length(value, 0, Shape::kMaxRank);
    case AttrKind::Ints:
      return has_length(value, 0, kMaxListLength);
    case AttrKind::Tensor:
      return std::holds_alternative<Tensor>(value);
    case AttrKind::Function:
      return std::holds_alternative<std::shared_ptr<const GraphFunction>>(value);
  }
  return false;
}

const AttrDef* AttrList::find(std::string_view name) const {
  const auto found =
      std::find_if(begin(), end(), [&](const AttrDef& attr) { return attr.name == name; });
  return found == end() ? nullptr : found;
}

}  // namespace cohort::internal
