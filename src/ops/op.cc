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

void check_call(const OpDef& op, size_t inputs, const Attrs& attrs) {
  if (inputs < static_cast<size_t>(op.inputs.least) ||
      inputs > static_cast<size_t>(op.inputs.most)) {
    const bool many = op.inputs.most == kAnyNumber;
    raise(Code::InvalidArgument, "[{}] takes {}{} inputs, got {}", op.name, op.inputs.least,
          many ? " or more" : fmt::format(" to {}", op.inputs.most), inputs);
  }
  for (const AttrDef& wanted : op.attrs) {
    const AttrValue* const value = attrs.find(wanted.name);
    if (value == nullptr) {
      raise(Code::InvalidArgument, "[{}] lacks the attribute '{}'", op.name, wanted.name);
    }
    if (!matches(wanted.kind, *value)) {
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

template <typename T>
bool is_value(const AttrValue& value) {
  return std::holds_alternative<T>(value);
}
template <size_t kMin, size_t kMax>
bool is_list(const AttrValue& value) {
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  return list != nullptr && list->size() >= kMin && list->size() <= kMax;
}

// What an attribute of each kind holds, in the order of AttrKind.
struct KindFacts {
  std::string_view text;
  bool (*matches)(const AttrValue&);
};
constexpr KindFacts kKinds[] = {
    {"a bool", is_value<bool>},
    {"an integer", is_value<int64_t>},
    {"a number", is_value<double>},
    {"a text", is_value<std::string>},
    {"a dtype", is_value<DType>},
    {"a shape", is_value<Shape>},
    {"two integers", is_list<2, 2>},
    {"at most 8 integers", is_list<0, Shape::kMaxRank>},
    {"a list of integers", is_list<0, 1 << 20>},
    {"a tensor", is_value<Tensor>},
    {"a function", is_value<FunctionPtr>},
};

}  // namespace

const AttrValue* Attrs::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::first);
  return found == entries_.end() ? nullptr : &found->second;
}

const AttrValue& Attrs::at(std::string_view name) const {
  if (const AttrValue* const found = find(name)) return *found;
  raise(Code::Internal, "[Attrs] no attribute '{}'", name);
}

std::string_view to_string(AttrKind kind) { return kKinds[static_cast<size_t>(kind)].text; }

bool matches(AttrKind kind, const AttrValue& value) {
  return kKinds[static_cast<size_t>(kind)].matches(value);
}

const AttrDef* AttrList::find(std::string_view name) const {
  const auto found = std::find_if(begin(), end(), [&](auto& attr) { return attr.name == name; });
  return found == end() ? nullptr : found;
}

bool AttrList::has(AttrKind kind) const {
  return std::any_of(begin(), end(), [&](auto& attr) { return attr.kind == kind; });
}

std::vector<int64_t> pack_specs(std::span<const Spec> specs) {
  std::vector<int64_t> packed;
  for (const Spec& spec : specs) {
    packed.push_back(static_cast<int64_t>(spec.dtype));
    packed.push_back(spec.shape.rank());
    packed.insert(packed.end(), spec.shape.begin(), spec.shape.end());
  }
  return packed;
}

namespace {

[[noreturn]] void raise_malformed(std::string_view op) {
  raise(Code::InvalidArgument, "[{}] the list of dtypes and shapes is malformed", op);
}

}  // namespace

Specs unpack_specs(std::string_view op, std::span<const int64_t> packed) {
  constexpr int64_t kLargest = int64_t{1} << 46;  // what infers shapes may add and double sizes
  Specs specs;
  while (!packed.empty()) {
    if (packed.size() < 2) raise_malformed(op);
    const int64_t dtype = packed[0];
    const int64_t rank = packed[1];
    packed = packed.subspan(2);
    const bool sized =
        rank >= 0 && rank <= Shape::kMaxRank && packed.size() >= static_cast<size_t>(rank);
    if (dtype < 0 || dtype > static_cast<int64_t>(DType::String) || (rank != -1 && !sized)) {
      raise_malformed(op);
    }
    const std::span<const int64_t> sizes = packed.first(rank < 0 ? 0 : static_cast<size_t>(rank));
    for (const int64_t size : sizes) {
      if (size < Shape::kUnknownDim || size > kLargest) raise_malformed(op);
    }
    specs.push_back({static_cast<DType>(dtype), rank < 0 ? Shape::unknown() : Shape(sizes)});
    packed = packed.subspan(sizes.size());
  }
  return specs;
}

Specs specs_of(std::span<const Tensor> tensors) {
  Specs specs;
  for (const Tensor& tensor : tensors) specs.push_back(Spec::of(tensor));
  return specs;
}

std::string to_string(std::span<const Spec> specs) {
  std::string text;
  for (const Spec& spec : specs) {
    if (!text.empty()) text += ", ";
    text += spec.to_string();
  }
  return "(" + text + ")";
}

}  // namespace cohort::internal
