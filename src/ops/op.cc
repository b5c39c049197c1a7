#include "ops/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/raise.h"
#include "ops/all_ops.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

constexpr const OpDef* kAllOps[] = {
#define OP(constant) &constant,
#include "ops/op_list.inc"
#undef OP
};

}  // namespace

const Shape& OpInputs::shape(size_t i) const { return body(tensors[i]).shape; }
DType OpInputs::dtype(size_t i) const { return body(tensors[i]).dtype; }

std::string DTypeSet::to_string() const {
  std::string text;
  for (int i = 0; i <= static_cast<int>(DType::Resource); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!has(dtype)) continue;
    if (!text.empty()) text += ", ";
    text += cohort::to_string(dtype);
  }
  return text;
}

std::span<const OpDef* const> all_ops() { return kAllOps; }

const OpDef* find_op_or_null(std::string_view name) {
  static const auto* const ops = [] {
    auto* all = new std::unordered_map<std::string_view, const OpDef*>();
    for (const OpDef* op : all_ops()) all->emplace(op->name, op);
    return all;
  }();
  const auto found = ops->find(name);
  return found == ops->end() ? nullptr : found->second;
}

const OpDef& find_op(std::string_view name) {
  const OpDef* const op = find_op_or_null(name);
  if (op == nullptr) raise(Code::NotFound, "[Op] there is no op '{}'", name);
  return *op;
}

void check_call(const OpDef& op, size_t inputs, const Attrs& attrs) {
  if (inputs < static_cast<size_t>(op.inputs.least) ||
      inputs > static_cast<size_t>(op.inputs.most)) {
    const bool many = op.inputs.most == kAnyNumber;
    raise(Code::InvalidArgument, "[{}] takes {}{} inputs, got {}", op.name, op.inputs.least,
          many ? " or more" : fmt::format(" to {}", op.inputs.most), inputs);
  }
  for (const AttrDef& wanted : op.attrs) {
    const auto entry = std::find_if(attrs.entries().begin(), attrs.entries().end(),
                                    [&](const auto& e) { return e.first == wanted.name; });
    if (entry == attrs.entries().end()) {
      raise(Code::InvalidArgument, "[{}] lacks the attribute '{}'", op.name, wanted.name);
    }
    if (!matches(wanted.kind, entry->second)) {
      raise(Code::InvalidArgument, "[{}] attribute '{}' must be {}", op.name, wanted.name,
            to_string(wanted.kind));
    }
  }
  if (attrs.entries().size() != op.attrs.size()) {
    raise(Code::InvalidArgument, "[{}] has {} attributes, got {}", op.name, op.attrs.size(),
          attrs.entries().size());
  }
}

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
