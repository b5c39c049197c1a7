#include "coordinator/once.h"

#include <algorithm>
#include <functional>
#include <map>

#include "cohort/device.h"
#include "cohort/ops.h"
#include "coordinator/graph_nodes.h"
#include "graph/without_effects.h"
#include "ops/all_ops.h"
#include "ops/element_source.h"

namespace cohort::internal {
namespace {

using FunctionPtr = std::shared_ptr<const GraphFunction>;
using Places = std::vector<bool>;  // which of a node's inputs are handles of guarded state

// Whether it changes the state that its first input is the handle of.
bool is_change(const OpDef& op, const Attrs& attrs) {
  if (!op.traits.has(Trait::HasEffect)) return false;
  return takes_element(op) || (attrs.has("dtype") && attrs.has("shape"));
}

bool calls_functions(const OpDef& op) { return &op == &kCond || &op == &kWhile; }

bool changes_some_of(const std::set<NodeOutput>& guarded, const GraphImpl& graph,
                     const Node& node) {
  const std::set<NodeOutput> changed = changed_by(graph, node);
  return std::ranges::any_of(changed,
                             [&](const NodeOutput each) { return guarded.contains(each); });
}

// An op's call as a function of its inputs.
FunctionPtr function_of(const OpDef& op, const Attrs& attrs, const Specs& inputs, Site site) {
  return closed(*trace("update", inputs, [&](std::span<const Tensor> symbols) {
    return apply_many(op, symbols, attrs, site);
  }));
}

// A predicate, by the handle of guarded state and itself: Once keeps what it was.
FunctionPtr decision() {
  const Specs inputs{{kResource, Shape{}}, {kBool, Shape{}}};
  return closed(*trace("decision", inputs, [](std::span<const Tensor> symbols) {
    return std::vector{identity(symbols[1])};
  }));
}

Attrs once_attrs(FunctionPtr update, int64_t number, const std::string& container) {
  return {{"update", std::move(update)}, {"number", number}, {"container", container}};
}

// A call of a function of the graph with its changes made once: the same op with other functions,
// which take more.
struct GuardedCall {
  static constexpr int kClaim = -1;
  static constexpr int kHandle = -2;
  static constexpr int kDecided = -3;  // the predicate, as it was when it was first known
  static constexpr int kZero = -4;

  Attrs attrs;
  std::vector<int> inputs;  // places of the original call's inputs, or one of the above
};

// What a GuardedCall's inputs are: node_outputs of a graph, or tensors of a trace.
template <typename Value>
struct CallInputs {
  const std::vector<Value>& original;
  const Value& claim;
  const Value& handle;
  std::function<Value()> decided;
  std::function<Value()> zero;

  std::vector<Value> of(const GuardedCall& call) const {
    std::vector<Value> all;
    for (const int place : call.inputs) {
      if (place >= 0) {
        all.push_back(original[static_cast<size_t>(place)]);
      } else if (place == GuardedCall::kClaim) {
        all.push_back(claim);
      } else if (place == GuardedCall::kHandle) {
        all.push_back(handle);
      } else {
        all.push_back(place == GuardedCall::kDecided ? decided() : zero());
      }
    }
    return all;
  }
};

Tensor first_iteration() { return Tensor::from(std::vector<int64_t>{0}, {}); }

class Loop;

// Writes functions anew.
class Rewriter {
 public:
  Rewriter(int64_t& next_number, const std::string& container)
      : next_number_(next_number), container_(container) {}

  GuardedCall rewrite(const OpDef& op, const Attrs& attrs, const Places& handles, int claim_size) {
    return &op == &kCond ? cond(attrs, handles, claim_size)
                         : while_loop(attrs, handles, claim_size);
  }

 private:
  class Body;

  GuardedCall cond(const Attrs& attrs, const Places& handles, int claim_size);
  GuardedCall while_loop(const Attrs& attrs, const Places& handles, int claim_size);
  FunctionPtr loop_condition(const Loop& loop, int claim_size);
  FunctionPtr loop_body(const Loop& loop, int claim_size);
  FunctionPtr branch(const GraphFunction& function, const Places& handles, int claim_size);

  int64_t& next_number_;  // of a change or a decision
  const std::string& container_;
};

// One call of a function that is written anew, in the function being traced.
class Rewriter::Body {
 public:
  Body(Rewriter& rewriter, const GraphFunction& function, const Places& handles, Tensor claim)
      : rewriter_(rewriter), function_(function), claim_(std::move(claim)) {
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      if (handles[i]) guarded_.insert(function.arguments[i]);
    }
  }

  std::vector<Tensor> call(std::span<const Tensor> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) values_[function_.arguments[i]] = arguments[i];
    for (int id = 0; id < function_.body->size(); ++id) {
      if (function_.body->node(id).op != &kArgument) copy(id);
    }
    std::vector<Tensor> results;
    for (const NodeOutput result : function_.results) results.push_back(values_.at(result));
    return results;
  }

 private:
  void copy(int id) {
    const Node& node = function_.body->node(id);
    const DeviceScope on(node.device.to_string());
    std::vector<Tensor> inputs;
    Places handles;
    for (const NodeOutput input : node.inputs) {
      inputs.push_back(values_.at(input));
      handles.push_back(guarded_.contains(input));
    }
    const std::vector<Tensor> outputs = called(node, inputs, handles);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      values_[{id, static_cast<int>(i)}] = outputs[i];
    }
  }

  std::vector<Tensor> called(const Node& node, const std::vector<Tensor>& inputs,
                             const Places& handles) {
    if (std::ranges::find(handles, true) == handles.end()) {
      return apply_many(*node.op, inputs, node.attrs, node.site);
    }
    if (handles[0] && is_change(*node.op, node.attrs)) {
      Specs specs;
      for (const Tensor& input : inputs) specs.push_back({input.dtype(), input.shape()});
      return once(function_of(*node.op, node.attrs, specs, node.site), inputs, node.site);
    }
    if (calls_functions(*node.op) && changes_some_of(guarded_, *function_.body, node)) {
      return call_guarded(node, inputs, handles);
    }
    return apply_many(*node.op, inputs, node.attrs, node.site);
  }

  std::vector<Tensor> once(FunctionPtr update, std::vector<Tensor> inputs, Site site) {
    inputs.insert(inputs.begin(), claim_);
    return apply_many(kOnce, inputs,
                      once_attrs(std::move(update), rewriter_.next_number_++, rewriter_.container_),
                      site);
  }

  std::vector<Tensor> call_guarded(const Node& node, const std::vector<Tensor>& inputs,
                                   const Places& handles) {
    const auto claim_size = static_cast<int>(claim_.shape()[0]);
    const GuardedCall made = rewriter_.rewrite(*node.op, node.attrs, handles, claim_size);
    const size_t handle = static_cast<size_t>(std::ranges::find(handles, true) - handles.begin());
    const CallInputs<Tensor> given{
        .original = inputs,
        .claim = claim_,
        .handle = inputs[handle],
        .decided =
            [&] {
              return once(decision(), {inputs[handle], inputs[0]}, node.site)[0];
            },
        .zero = first_iteration};
    return apply_many(*node.op, given.of(made), made.attrs, node.site);
  }

  Rewriter& rewriter_;
  const GraphFunction& function_;
  const Tensor claim_;
  std::set<NodeOutput> guarded_;
  std::map<NodeOutput, Tensor> values_;
};

Spec claim_spec(int size) { return {kInt64, Shape{size}}; }

Places part(const Places& handles, size_t begin, size_t count) {
  const auto first = handles.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

void add_places(std::vector<int>& places, size_t begin, size_t count) {
  for (size_t i = 0; i < count; ++i) places.push_back(static_cast<int>(begin + i));
}

FunctionPtr Rewriter::branch(const GraphFunction& function, const Places& handles, int claim_size) {
  Specs specs = argument_specs(function);
  specs.push_back(claim_spec(claim_size));
  return closed(*trace(function.name, specs, [&](std::span<const Tensor> given) {
    return Body(*this, function, handles, given.back()).call(given.first(given.size() - 1));
  }));
}

GuardedCall Rewriter::cond(const Attrs& attrs, const Places& handles, int claim_size) {
  const FunctionPtr& then_branch = attrs.get<FunctionPtr>("then_branch");
  const FunctionPtr& else_branch = attrs.get<FunctionPtr>("else_branch");
  const size_t num_then = then_branch->arguments.size();
  const size_t num_else = else_branch->arguments.size();
  GuardedCall made;
  made.attrs = {
      {"then_branch", branch(*then_branch, part(handles, 1, num_then), claim_size)},
      {"else_branch", branch(*else_branch, part(handles, 1 + num_then, num_else), claim_size)}};
  made.inputs = {GuardedCall::kDecided};
  add_places(made.inputs, 1, num_then);
  made.inputs.push_back(GuardedCall::kClaim);
  add_places(made.inputs, 1 + num_then, num_else);
  made.inputs.push_back(GuardedCall::kClaim);
  return made;
}

// A loop that is written anew: the number of the iteration becomes part of its state, and what
// names the call inside of an iteration ends with it.
class Loop {
 public:
  Loop(const Attrs& attrs, const Places& handles)
      : condition(attrs.get<FunctionPtr>("condition")),
        body(attrs.get<FunctionPtr>("body")),
        num_state(static_cast<size_t>(attrs.integer("num_state"))),
        num_condition(condition->arguments.size() - num_state),
        num_body(body->arguments.size() - num_state),
        handles_(handles) {}

  // Of what the condition or the body captured, from `begin` on: which arguments are handles.
  Places handles_of(size_t begin, size_t captures) const {
    Places all = part(handles_, 0, num_state);
    const Places captured = part(handles_, begin, captures);
    all.insert(all.end(), captured.begin(), captured.end());
    return all;
  }
  // What the new function takes: state, iteration, captures and claim.
  Specs specs_of(const GraphFunction& function, int claim_size) const {
    Specs specs = argument_specs(function);
    specs.insert(specs.begin() + static_cast<std::ptrdiff_t>(num_state), Spec{kInt64, Shape{}});
    specs.push_back(claim_spec(claim_size));
    return specs;
  }
  // The old function's part of that.
  std::vector<Tensor> arguments(std::span<const Tensor> given, size_t captures) const {
    const auto state = given.first(num_state);
    const auto captured = given.subspan(num_state + 1, captures);
    std::vector<Tensor> all(state.begin(), state.end());
    all.insert(all.end(), captured.begin(), captured.end());
    return all;
  }
  Tensor claim(std::span<const Tensor> given, size_t captures) const {
    return concat({given[num_state + 1 + captures], reshape(given[num_state], {1})}, 0);
  }

  const FunctionPtr condition;
  const FunctionPtr body;
  const size_t num_state;
  const size_t num_condition;  // captures, as the next
  const size_t num_body;

 private:
  const Places& handles_;
};

// The handle of guarded state comes after the claim.
FunctionPtr Rewriter::loop_condition(const Loop& loop, int claim_size) {
  Specs specs = loop.specs_of(*loop.condition, claim_size);
  specs.push_back({kResource, Shape{}});
  const Places handles = loop.handles_of(loop.num_state, loop.num_condition);
  return closed(*trace(loop.condition->name, specs, [&](std::span<const Tensor> given) {
    const Tensor claim = loop.claim(given, loop.num_condition);
    const std::vector<Tensor> go = Body(*this, *loop.condition, handles, claim)
                                       .call(loop.arguments(given, loop.num_condition));
    return apply_many(kOnce, std::vector{claim, given.back(), go[0]},
                      once_attrs(decision(), next_number_++, container_), {});
  }));
}

FunctionPtr Rewriter::loop_body(const Loop& loop, int claim_size) {
  const Places handles = loop.handles_of(loop.num_state + loop.num_condition, loop.num_body);
  const Specs specs = loop.specs_of(*loop.body, claim_size);
  return closed(*trace(loop.body->name, specs, [&](std::span<const Tensor> given) {
    const Tensor claim = loop.claim(given, loop.num_body);
    std::vector<Tensor> next =
        Body(*this, *loop.body, handles, claim).call(loop.arguments(given, loop.num_body));
    next.push_back(given[loop.num_state] + int64_t{1});
    return next;
  }));
}

GuardedCall Rewriter::while_loop(const Attrs& attrs, const Places& handles, int claim_size) {
  const Loop loop(attrs, handles);
  GuardedCall made;
  made.attrs = {{"condition", loop_condition(loop, claim_size)},
                {"body", loop_body(loop, claim_size)},
                {"num_state", static_cast<int64_t>(loop.num_state + 1)},
                {"maximum_iterations", attrs.integer("maximum_iterations")}};
  add_places(made.inputs, 0, loop.num_state);
  made.inputs.push_back(GuardedCall::kZero);
  add_places(made.inputs, loop.num_state, loop.num_condition);
  made.inputs.insert(made.inputs.end(), {GuardedCall::kClaim, GuardedCall::kHandle});
  add_places(made.inputs, loop.num_state + loop.num_condition, loop.num_body);
  made.inputs.push_back(GuardedCall::kClaim);
  return made;
}

}  // namespace

Node OnceGuard::guard(Node node, const std::set<NodeOutput>& guarded, NodeOutput claim) {
  const auto handle = std::ranges::find_if(
      node.inputs, [&](const NodeOutput input) { return guarded.contains(input); });
  if (handle == node.inputs.end()) return node;
  if (calls_functions(*node.op)) {
    return changes_some_of(guarded, graph_, node) ? guard_calls(std::move(node), guarded, claim)
                                                  : node;
  }
  if (handle != node.inputs.begin() || !is_change(*node.op, node.attrs)) return node;
  Specs specs;
  for (const NodeOutput input : node.inputs) {
    specs.push_back(graph_.node(input.node).outputs[static_cast<size_t>(input.output)]);
  }
  node.attrs =
      once_attrs(function_of(*node.op, node.attrs, specs, node.site), next_number_++, container_);
  node.op = &kOnce;
  node.inputs.insert(node.inputs.begin(), claim);
  return node;
}

Node OnceGuard::guard_calls(Node node, const std::set<NodeOutput>& guarded, NodeOutput claim) {
  Places handles;
  for (const NodeOutput input : node.inputs) handles.push_back(guarded.contains(input));
  const NodeOutput handle =
      node.inputs[static_cast<size_t>(std::ranges::find(handles, true) - handles.begin())];
  const Shape& size = graph_.node(claim.node).outputs[size_t(claim.output)].shape;
  GuardedCall made = Rewriter(next_number_, container_)
                         .rewrite(*node.op, node.attrs, handles, static_cast<int>(size[0]));
  const CallInputs<NodeOutput> given{
      .original = node.inputs,
      .claim = claim,
      .handle = handle,
      .decided =
          [&] {
            return NodeOutput{add_node(graph_, "Decided", kOnce, {claim, handle, node.inputs[0]},
                                       once_attrs(decision(), next_number_++, container_),
                                       node.device, node.controls)};
          },
      .zero =
          [&] {
            return NodeOutput{
                add_node(graph_, "Zero", kConst, {}, {{"value", first_iteration()}}, node.device)};
          }};
  node.inputs = given.of(made);
  node.attrs = std::move(made.attrs);
  if (node.op == &kWhile) node.outputs.push_back({kInt64, Shape{}});
  return node;
}

}  // namespace cohort::internal
