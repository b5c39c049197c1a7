#include "graph/inner_reads.h"

#include "ops/all_ops.h"

namespace cohort::internal {
namespace {

using FunctionPtr = std::shared_ptr<const GraphFunction>;

std::optional<InnerRead> read_in_branch(const Node& cond, size_t input) {
  if (input == 0) return std::nullopt;
  const auto& first = cond.attrs.get<FunctionPtr>("then_branch");
  const size_t num_first = first->arguments.size();
  if (input <= num_first) return read_of_argument(*first, input - 1);
  return read_of_argument(*cond.attrs.get<FunctionPtr>("else_branch"), input - 1 - num_first);
}

std::optional<InnerRead> read_in_loop(const Node& loop, size_t input) {
  const auto num_state = static_cast<size_t>(loop.attrs.integer("num_state"));
  const size_t behind = loop.attrs.get<FunctionPtr>("condition")->arguments.size();
  if (input < behind) return std::nullopt;
  return read_of_argument(*loop.attrs.get<FunctionPtr>("body"), input - behind + num_state);
}

}  // namespace

std::optional<InnerRead> read_of_input(const Node& node, size_t input) {
  if (node.op == &kCond) return read_in_branch(node, input);
  if (node.op == &kWhile) return read_in_loop(node, input);
  return std::nullopt;
}

std::optional<InnerRead> read_of_argument(const GraphFunction& function, size_t argument) {
  const NodeOutput handle = function.arguments[argument];
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != handle) continue;
      if (node.op == &kReadVariable) {
        return InnerRead{function.body->symbol({id, 0}), node.attrs.flag("trainable")};
      }
      if (const auto found = read_of_input(node, i)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace cohort::internal
