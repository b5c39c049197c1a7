#include "ops/all_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr const OpDef* kAllOps[] = {
#define OP(constant) &constant,
#include "ops/op_list.inc"
#undef OP
};

}  // namespace

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

}  // namespace cohort::internal
