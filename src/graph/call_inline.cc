#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/gradients.h"
#include "ops/all_ops.h"
#include "ops/run_context.h"
#include "ops/variable_ops.h"

namespace cohort::internal {
namespace {

// Calls with different numbers draw different random numbers.
Attrs attrs_in_call(const Node& node, int64_t number) {
  if (node.op != &kRandomKey || number == 0) return node.attrs;
  return {{"seed", node.attrs.integer("seed")},
          {"counter", node.attrs.integer("counter")},
          {"call", number}};
}

// Recorders must know which handles count before the call that takes them.
void tell_inner_reads(const Node& node, std::span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != kResource) continue;
    const auto read = read_of_input(node, i);
    if (read) note_read(inputs[i], read->value, read->trainable);
  }
}

}  // namespace

std::vector<Tensor> call_inline(const GraphFunction& function, std::span<const Tensor> inputs,
                                uint64_t number) {
  if (inputs.size() != function.num_own_arguments()) {
    raise(Code::InvalidArgument, "[Function] '{}' takes {} tensors, got {}", function.name,
          function.num_own_arguments(), inputs.size());
  }
  return call_body(function, inputs, [&](const Node& node, std::span<const Tensor> given) {
    if (thread_dispatch().recorder != nullptr) tell_inner_reads(node, given);
    const Attrs attrs = attrs_in_call(node, static_cast<int64_t>(number));
    std::vector<Tensor> outputs = apply_many(*node.op, given, attrs, node.site);
    if (node.op == &kReadVariable) {
      note_read(given[0], outputs[0], node.attrs.flag("trainable"));
    }
    return outputs;
  });
}

std::vector<Tensor> call_function(const GraphFunction& function, std::span<const Tensor> inputs,
                                  RunContext* run) {
  return run != nullptr ? run->call(function, inputs) : call_inline(function, inputs);
}

std::vector<Tensor> own_results(std::vector<Tensor> results) {
  if (thread_dispatch().recorder == nullptr) return results;
  for (Tensor& result : results) {
    if (result.dtype() != kResource) result = identity(result);
  }
  return results;
}

}  // namespace cohort::internal
