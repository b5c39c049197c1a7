#include <algorithm>
#include <array>
#include <cctype>

#include "base/raise.h"
#include "cohort/values.h"

namespace cohort {
namespace {

struct NamedOp {
  ReduceOp op;
  std::string_view name;
};
constexpr std::array kNames{NamedOp{ReduceOp::Sum, "Sum"}, NamedOp{ReduceOp::Mean, "Mean"},
                            NamedOp{ReduceOp::Min, "Min"}, NamedOp{ReduceOp::Max, "Max"},
                            NamedOp{ReduceOp::Product, "Product"}};

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::string to_string(ReduceOp op) {
  for (const NamedOp& entry : kNames) {
    if (entry.op == op) return std::string(entry.name);
  }
  internal::raise(Code::InvalidArgument, "[ReduceOp] there is no reduction {}",
                  static_cast<int>(op));
}

ReduceOp parse_reduce_op(std::string_view name) {
  for (const NamedOp& entry : kNames) {
    if (equal_in_any_case(entry.name, name)) return entry.op;
  }
  internal::raise(
      Code::InvalidArgument,
      "[ReduceOp] there is no reduction '{}'; there are sum, mean, min, max and product", name);
}

ReduceOp reduce_op_of(VariableAggregation aggregation) {
  if (aggregation == VariableAggregation::Sum) return ReduceOp::Sum;
  if (aggregation == VariableAggregation::Mean) return ReduceOp::Mean;
  internal::raise(Code::InvalidArgument,
                  "[ReduceOp] aggregation {} is no reduction; Sum and Mean are",
                  aggregation == VariableAggregation::None ? "None" : "OnlyFirstReplica");
}

}  // namespace cohort
