#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/gradients.h"
#include "ops/all_ops.h"
#include "ops/infer.h"
#include "ops/run_context.h"

namespace cohort {
namespace internal {
namespace {

constexpr AttrList kLoopAttrs{{"condition", AttrKind::Function},
                              {"body", AttrKind::Function},
                              {"num_state", AttrKind::Int},
                              {"maximum_iterations", AttrKind::Int}};

constexpr int64_t kNoLimit = -1;  // of maximum_iterations

// The parts of a loop's inputs: the state, then what the condition and the body captured.
struct LoopInputs {
  LoopInputs(const Attrs& attrs, std::span<const Tensor> inputs)
      : condition(*attrs.get<FunctionPtr>("condition")),
        body(*attrs.get<FunctionPtr>("body")),
        num_state(static_cast<size_t>(attrs.integer("num_state"))),
        state(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(num_state)),
        condition_captures(inputs.subspan(num_state, condition.arguments.size() - num_state)),
        body_captures(inputs.subspan(num_state + condition_captures.size(),
                                     body.arguments.size() - num_state)) {}

  const GraphFunction& condition;
  const GraphFunction& body;
  size_t num_state;
  std::vector<Tensor> state;
  std::span<const Tensor> condition_captures;
  std::span<const Tensor> body_captures;
};

// Runs the loop; `visit` sees the state before each iteration.
template <typename Visit>
std::vector<Tensor> run_loop(const Kernel& k, LoopInputs& loop, const Visit& visit) {
  const int64_t most = k.attrs.integer("maximum_iterations");
  for (int64_t i = 0; most < 0 || i < most; ++i) {
    if (k.run != nullptr) k.run->cancellation().check();
    const std::vector<Tensor> go =
        call_function(loop.condition, joined({loop.state, loop.condition_captures}), k.run);
    if (!go[0].to<bool>()) break;
    visit(loop.state);
    loop.state = call_function(loop.body, joined({loop.state, loop.body_captures}), k.run);
  }
  return loop.state;
}

// Adds each of `more` to the sum in its place; sums that are not there yet begin with it.
void add_each(std::vector<Tensor>& sums, std::span<const Tensor> more) {
  for (size_t i = 0; i < more.size(); ++i) {
    if (i == sums.size()) {
      sums.push_back(more[i]);
    } else {
      sums[i] = sums[i] + more[i];
    }
  }
}

// Gradients of the state's and the captures' floating members, walking the iterations backwards.
void run_backwards(Kernel& k) {
  LoopInputs loop(k.attrs, k.inputs);
  const size_t num_inputs =
      loop.num_state + loop.condition_captures.size() + loop.body_captures.size();
  std::vector<std::vector<Tensor>> states;
  run_loop(k, loop, [&](const std::vector<Tensor>& state) { states.push_back(state); });
  const GraphFunction& gradient = *k.attrs.get<FunctionPtr>("body_gradient");
  const size_t num_floating_state = floating(result_specs(loop.body)).size();
  std::vector<Tensor> state_gradients(k.inputs.begin() + static_cast<std::ptrdiff_t>(num_inputs),
                                      k.inputs.end());
  std::vector<Tensor> capture_gradients;
  for (size_t i = states.size(); i-- > 0;) {
    const std::vector<Tensor> inputs = joined({states[i], loop.body_captures, state_gradients});
    const std::vector<Tensor> found = call_function(gradient, inputs, k.run);
    state_gradients.assign(found.begin(),
                           found.begin() + static_cast<std::ptrdiff_t>(num_floating_state));
    add_each(capture_gradients, std::span(found).subspan(num_floating_state));
  }
  size_t next = 0;
  for (const Tensor& found : state_gradients) k.outputs[next++] = found;
  for (const Tensor& found : capture_gradients) k.outputs[next++] = found;
  if (next == k.outputs.size()) return;
  // No iteration: nothing depends on what the body captured.
  const Specs slopes = gradient_specs(loop.body);
  for (const size_t i : floating(slopes)) {
    if (i < loop.num_state) continue;
    k.outputs[next++] = zero_gradient(slopes[i], loop.body_captures[i - loop.num_state]);
  }
}

// The outputs of WhileGrad: the gradients of the state and of the captures of the body.
Specs specs_of_gradients(const LoopInputs& loop) {
  Specs specs;
  const Specs slopes = gradient_specs(loop.body);
  for (const size_t i : floating(slopes)) {
    if (i < loop.num_state) {
      specs.push_back({slopes[i].dtype, loop.state[i].shape()});
      continue;
    }
    const Tensor& capture = loop.body_captures[i - loop.num_state];
    const bool handle = capture.dtype() == kResource;
    specs.push_back({slopes[i].dtype, handle ? slopes[i].shape : capture.shape()});
  }
  return specs;
}

void check_loop(const GraphFunction& condition, const GraphFunction& body, const Specs& state) {
  const Specs answer = result_specs(condition);
  if (answer.size() != 1 || answer[0].dtype != kBool) {
    raise(Code::InvalidArgument, "[While] the condition must return one bool, got {}",
          to_string(answer));
  }
  const Specs next = result_specs(body);
  if (next.size() != state.size()) {
    raise(Code::InvalidArgument, "[While] the state has {} tensors, but the body returns {}",
          state.size(), next.size());
  }
  for (size_t i = 0; i < state.size(); ++i) {
    if (next[i].is_compatible_with(state[i])) continue;
    raise(Code::InvalidArgument,
          "[While] tensor {} of the state is {} of shape {}, but the body makes it {} of shape {}",
          i, to_string(state[i].dtype), state[i].shape.to_string(), to_string(next[i].dtype),
          next[i].shape.to_string());
  }
}

// Throws InvalidArgument unless the functions fit together and to the inputs, of which the last
// `others` are not the loop's.
void check_inputs(const OpInputs& inputs, size_t others) {
  const GraphFunction& condition = *inputs.attrs.get<FunctionPtr>("condition");
  const GraphFunction& body = *inputs.attrs.get<FunctionPtr>("body");
  const int64_t num_state = inputs.attrs.integer("num_state");
  const size_t arguments = condition.arguments.size() + body.arguments.size();
  const auto states = static_cast<size_t>(std::max<int64_t>(num_state, 0));
  if (num_state < 0 || states > condition.arguments.size() || states > body.arguments.size() ||
      inputs.size() != arguments - states + others) {
    raise(Code::InvalidArgument, "[{}] {} inputs do not fit a state of {} tensors", inputs.op,
          inputs.size(), num_state);
  }
  const LoopInputs loop(inputs.attrs, inputs.tensors);
  require_arguments(inputs.op, condition, joined({loop.state, loop.condition_captures}));
  require_arguments(inputs.op, body, joined({loop.state, loop.body_captures}));
  check_loop(condition, body, specs_of(loop.state));
}

void check_gradient_inputs(const OpInputs& inputs) {
  const GraphFunction& body = *inputs.attrs.get<FunctionPtr>("body");
  const GraphFunction& gradient = *inputs.attrs.get<FunctionPtr>("body_gradient");
  const size_t seeds = floating(result_specs(body)).size();
  check_inputs(inputs, seeds);
  const LoopInputs loop(inputs.attrs, inputs.tensors);
  require_arguments(inputs.op, gradient,
                    joined({loop.state, loop.body_captures, inputs.tensors.last(seeds)}));
  if (gradient.results.size() != floating(gradient_specs(body)).size()) {
    raise(Code::InvalidArgument, "[{}] the gradient returns {} tensors", inputs.op,
          gradient.results.size());
  }
}

// The gradient of a loop repeats its iterations. Throws unless the condition then gives the same
// results: it must not depend on state that the body changes.
void check_condition_again(const LoopInputs& loop) {
  std::set<const TensorBody*> changed;
  for (const size_t argument : changed_arguments(loop.body)) {
    if (argument < loop.num_state) continue;
    changed.insert(TensorAccess::id(loop.body_captures[argument - loop.num_state]));
  }
  for (const Tensor& captured : loop.condition_captures) {
    if (changed.contains(TensorAccess::id(captured))) refuse_to_compute_again(loop.condition.name);
  }
}

bool any_symbolic(const std::vector<Tensor>& tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& tensor) { return tensor.is_symbolic(); });
}

std::vector<Tensor> append_loop(const LoopCondition& condition, const LoopBody& body,
                                const std::vector<Tensor>& initial, const WhileOptions& options,
                                Site site) {
  const Specs state = specs_of(initial);
  const auto traced_condition = trace("condition", state, [&](std::span<const Tensor> now) {
    return std::vector<Tensor>{condition(now)};
  });
  const auto traced_body = trace("body", state, body);
  check_loop(*traced_condition, *traced_body, state);
  return apply_many(kWhile, joined({initial, traced_condition->captured, traced_body->captured}),
                    {{"condition", closed(*traced_condition)},
                     {"body", closed(*traced_body)},
                     {"num_state", static_cast<int64_t>(initial.size())},
                     {"maximum_iterations", options.maximum_iterations.value_or(kNoLimit)}},
                    site);
}

}  // namespace

extern constexpr OpDef kWhileGrad{
    .name = "WhileGrad",
    .inputs = {0, kAnyNumber},
    .dtypes = kAnyType | kResourceType,
    .attrs = kLoopAttrs + AttrList{{"body_gradient", AttrKind::Function}},
    .infer = [](const OpInputs& inputs) -> Specs {
      check_gradient_inputs(inputs);
      return specs_of_gradients(LoopInputs(inputs.attrs, inputs.tensors));
    },
    .compute = run_backwards,
    .no_gradient_because = "second derivatives of loops are not supported",
    .traits = Trait::ReadsState,
};

extern constexpr OpDef kWhile{
    .name = "While",
    .inputs = {0, kAnyNumber},
    .dtypes = kAnyType | kResourceType,
    .attrs = kLoopAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      check_inputs(inputs, 0);
      return specs_of(LoopInputs(inputs.attrs, inputs.tensors).state);
    },
    .compute =
        [](Kernel& k) {
          LoopInputs loop(k.attrs, k.inputs);
          const std::vector<Tensor> state =
              own_results(run_loop(k, loop, [](const std::vector<Tensor>&) {}));
          std::copy(state.begin(), state.end(), k.outputs.begin());
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> output_gradients) -> Gradients {
      const LoopInputs loop(call.attrs, call.inputs);
      check_condition_again(loop);
      std::vector<Tensor> inputs = call.inputs;
      for (const size_t i : floating(result_specs(loop.body)))
        inputs.push_back(output_gradients[i]);
      const std::vector<Tensor> found =
          apply_many(kWhileGrad, inputs,
                     {{"condition", without_effects(loop.condition)},
                      {"body", without_effects(loop.body)},
                      {"num_state", call.attrs.integer("num_state")},
                      {"maximum_iterations", call.attrs.integer("maximum_iterations")},
                      {"body_gradient", without_effects(*gradient_of(loop.body))}},
                     {});
      Gradients gradients(call.inputs.size());
      size_t next = 0;
      for (const size_t i : floating(gradient_specs(loop.body))) {
        const size_t skipped = i < loop.num_state ? 0 : loop.condition_captures.size();
        gradients[i + skipped] = found[next++];
      }
      return gradients;
    },
    .traits = Trait::HasEffect,  // the body may have effects
};

}  // namespace internal

std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopBody& body,
                               const std::vector<Tensor>& initial, const WhileOptions& options,
                               Site site) {
  if (options.maximum_iterations && *options.maximum_iterations < 0) {
    internal::raise(Code::InvalidArgument,
                    "[while_loop] maximum_iterations must be 0 or more, got {}; leave it empty for "
                    "no limit",
                    *options.maximum_iterations);
  }
  if (internal::thread_dispatch().builder != nullptr || internal::any_symbolic(initial)) {
    return internal::append_loop(condition, body, initial, options, site);
  }
  std::vector<Tensor> state = initial;
  for (int64_t i = 0; !options.maximum_iterations || i < *options.maximum_iterations; ++i) {
    if (!condition(state).to<bool>()) break;
    state = body(state);
  }
  return state;
}

}  // namespace cohort
