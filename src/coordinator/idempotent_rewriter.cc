#include "coordinator/idempotent_rewriter.h"

#include <algorithm>
#include <functional>

#include "base/raise.h"
#include "cohort/ops.h"
#include "coordinator/session_graph.h"
#include "graph/function_graph.h"
#include "ops/all_ops.h"
#include "ops/element_source.h"

namespace cohort::internal {
namespace {

using Places = std::vector<bool>;  // which inputs of a node are handles of guarded state

Places places_of_handles(const Node& node, const std::set<NodeOutput>& guarded) {
  Places handles;
  for (const NodeOutput input : node.inputs) handles.push_back(guarded.contains(input));
  return handles;
}

// Whether the op changes the state whose handle is its first input.
bool is_change(const OpDef& op, const Attrs& attrs) {
  if (!op.traits.has(Trait::HasEffect)) return false;
  return takes_element(op) || (attrs.has("dtype") && attrs.has("shape"));
}

// Once runs a function, too, and is idempotent already.
bool calls_functions(const OpDef& op) {
  return &op != &kIdempotentUpdate && op.attrs.has(AttrKind::Function);
}

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

// Returns the predicate, which comes after the handle of guarded state. Once keeps its value.
FunctionPtr decision() {
  const Specs inputs{{kResource, Shape{}}, {kBool, Shape{}}};
  return closed(*trace("decision", inputs, [](std::span<const Tensor> symbols) {
    return std::vector{identity(symbols[1])};
  }));
}

Attrs once_attrs(FunctionPtr update, int64_t number, const std::string& container) {
  return {{"update", std::move(update)}, {"number", number}, {"container", container}};
}

// A cond() or while_loop() whose changes are idempotent: the same op with other functions, which
// take more inputs.
struct GuardedCall {
  static constexpr int kCallId = -1;
  static constexpr int kHandle = -2;
  static constexpr int kDecided = -3;  // the predicate, as it was when it was first known
  static constexpr int kZero = -4;

  Attrs attrs;
  std::vector<int> inputs;  // places of the original call's inputs, or one of the above
};

// The values of a GuardedCall's inputs: outputs of a graph's nodes, or tensors of a trace.
template <typename Value>
struct CallInputs {
  const std::vector<Value>& original;
  const Value& call_id;
  const Value& handle;
  std::function<Value()> decided;
  std::function<Value()> zero;

  std::vector<Value> of(const GuardedCall& call) const {
    std::vector<Value> all;
    for (const int place : call.inputs) {
      if (place >= 0) {
        all.push_back(original[static_cast<size_t>(place)]);
      } else if (place == GuardedCall::kCallId) {
        all.push_back(call_id);
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

Spec call_id_spec(int size) { return {kInt64, Shape{size}}; }

Places part(const Places& handles, size_t begin, size_t count) {
  const auto first = handles.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

void add_places(std::vector<int>& places, size_t begin, size_t count) {
  for (size_t i = 0; i < count; ++i) places.push_back(static_cast<int>(begin + i));
}

// A loop to rewrite: the number of the iteration becomes part of its state, and the call ID inside
// an iteration ends with that number.
class Loop {
 public:
  Loop(const Attrs& attrs, const Places& handles)
      : condition(attrs.get<FunctionPtr>("condition")),
        body(attrs.get<FunctionPtr>("body")),
        num_state(static_cast<size_t>(attrs.integer("num_state"))),
        num_condition(condition->arguments.size() - num_state),
        num_body(body->arguments.size() - num_state),
        handles_(handles) {}

  // Which arguments of the condition or the body are handles. Its captures begin at `begin`.
  Places handles_of(size_t begin, size_t captures) const {
    Places all = part(handles_, 0, num_state);
    const Places captured = part(handles_, begin, captures);
    all.insert(all.end(), captured.begin(), captured.end());
    return all;
  }
  // The inputs of the new function: state, iteration, captures and call_id.
  Specs specs_of(const GraphFunction& function, int id_size) const {
    Specs specs = argument_specs(function);
    specs.insert(specs.begin() + static_cast<std::ptrdiff_t>(num_state), Spec{kInt64, Shape{}});
    specs.push_back(call_id_spec(id_size));
    return specs;
  }
  // The inputs of the old function among those.
  std::vector<Tensor> arguments(std::span<const Tensor> given, size_t captures) const {
    return joined({given.first(num_state), given.subspan(num_state + 1, captures)});
  }
  Tensor call_id(std::span<const Tensor> given, size_t captures) const {
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

// Rewrites the functions of cond() and while_loop().
class FunctionRewriter {
 public:
  FunctionRewriter(int64_t& next_number, const std::string& container)
      : next_number_(next_number), container_(container) {}

  GuardedCall rewrite(const OpDef& op, const Attrs& attrs, const Places& handles, int id_size) {
    if (&op == &kCond) return cond(attrs, handles, id_size);
    if (&op == &kWhile) return while_loop(attrs, handles, id_size);
    raise(Code::Unimplemented,
          "[schedule] what op {} changes inside its functions cannot be made idempotent", op.name);
  }

 private:
  // A copy of a function with idempotent changes, inside the function being traced.
  class Body {
   public:
    Body(FunctionRewriter& rewriter, const GraphFunction& function, const Places& handles,
         Tensor call_id)
        : rewriter_(rewriter), function_(function), call_id_(std::move(call_id)) {
      for (size_t i = 0; i < function.arguments.size(); ++i) {
        if (handles[i]) guarded_.insert(function.arguments[i]);
      }
    }

    std::vector<Tensor> call(std::span<const Tensor> arguments) {
      return call_body(function_, arguments, [&](const Node& node, std::span<const Tensor> inputs) {
        return called(node, {inputs.begin(), inputs.end()}, places_of_handles(node, guarded_));
      });
    }

   private:
    std::vector<Tensor> called(const Node& node, const std::vector<Tensor>& inputs,
                               const Places& handles) {
      if (std::ranges::find(handles, true) == handles.end()) {
        return apply_many(*node.op, inputs, node.attrs, node.site);
      }
      if (handles[0] && is_change(*node.op, node.attrs)) {
        return once(function_of(*node.op, node.attrs, specs_of(inputs), node.site), inputs,
                    node.site);
      }
      if (calls_functions(*node.op) && changes_some_of(guarded_, *function_.body, node)) {
        return call_guarded(node, inputs, handles);
      }
      return apply_many(*node.op, inputs, node.attrs, node.site);
    }

    std::vector<Tensor> once(FunctionPtr update, std::vector<Tensor> inputs, Site site) {
      inputs.insert(inputs.begin(), call_id_);
      return apply_many(
          kIdempotentUpdate, inputs,
          once_attrs(std::move(update), rewriter_.next_number_++, rewriter_.container_), site);
    }

    std::vector<Tensor> call_guarded(const Node& node, const std::vector<Tensor>& inputs,
                                     const Places& handles) {
      const auto id_size = static_cast<int>(call_id_.shape()[0]);
      const GuardedCall made = rewriter_.rewrite(*node.op, node.attrs, handles, id_size);
      const size_t handle = static_cast<size_t>(std::ranges::find(handles, true) - handles.begin());
      const CallInputs<Tensor> given{
          .original = inputs,
          .call_id = call_id_,
          .handle = inputs[handle],
          .decided =
              [&] {
                return once(decision(), {inputs[handle], inputs[0]}, node.site)[0];
              },
          .zero = first_iteration};
      return apply_many(*node.op, given.of(made), made.attrs, node.site);
    }

    FunctionRewriter& rewriter_;
    const GraphFunction& function_;
    const Tensor call_id_;
    std::set<NodeOutput> guarded_;
  };

  FunctionPtr branch(const GraphFunction& function, const Places& handles, int id_size) {
    Specs specs = argument_specs(function);
    specs.push_back(call_id_spec(id_size));
    return closed(*trace(function.name, specs, [&](std::span<const Tensor> given) {
      return Body(*this, function, handles, given.back()).call(given.first(given.size() - 1));
    }));
  }

  GuardedCall cond(const Attrs& attrs, const Places& handles, int id_size) {
    const FunctionPtr& then_branch = attrs.get<FunctionPtr>("then_branch");
    const FunctionPtr& else_branch = attrs.get<FunctionPtr>("else_branch");
    const size_t num_then = then_branch->arguments.size();
    const size_t num_else = else_branch->arguments.size();
    GuardedCall made;
    made.attrs = {
        {"then_branch", branch(*then_branch, part(handles, 1, num_then), id_size)},
        {"else_branch", branch(*else_branch, part(handles, 1 + num_then, num_else), id_size)}};
    made.inputs = {GuardedCall::kDecided};
    add_places(made.inputs, 1, num_then);
    made.inputs.push_back(GuardedCall::kCallId);
    add_places(made.inputs, 1 + num_then, num_else);
    made.inputs.push_back(GuardedCall::kCallId);
    return made;
  }

  // The handle of guarded state comes after the call_id.
  FunctionPtr loop_condition(const Loop& loop, int id_size) {
    Specs specs = loop.specs_of(*loop.condition, id_size);
    specs.push_back({kResource, Shape{}});
    const Places handles = loop.handles_of(loop.num_state, loop.num_condition);
    return closed(*trace(loop.condition->name, specs, [&](std::span<const Tensor> given) {
      const Tensor call_id = loop.call_id(given, loop.num_condition);
      const std::vector<Tensor> go = Body(*this, *loop.condition, handles, call_id)
                                         .call(loop.arguments(given, loop.num_condition));
      return apply_many(kIdempotentUpdate, std::vector{call_id, given.back(), go[0]},
                        once_attrs(decision(), next_number_++, container_), {});
    }));
  }

  FunctionPtr loop_body(const Loop& loop, int id_size) {
    const Places handles = loop.handles_of(loop.num_state + loop.num_condition, loop.num_body);
    const Specs specs = loop.specs_of(*loop.body, id_size);
    return closed(*trace(loop.body->name, specs, [&](std::span<const Tensor> given) {
      const Tensor call_id = loop.call_id(given, loop.num_body);
      std::vector<Tensor> next =
          Body(*this, *loop.body, handles, call_id).call(loop.arguments(given, loop.num_body));
      next.push_back(given[loop.num_state] + int64_t{1});
      return next;
    }));
  }

  GuardedCall while_loop(const Attrs& attrs, const Places& handles, int id_size) {
    const Loop loop(attrs, handles);
    GuardedCall made;
    made.attrs = {{"condition", loop_condition(loop, id_size)},
                  {"body", loop_body(loop, id_size)},
                  {"num_state", static_cast<int64_t>(loop.num_state + 1)},
                  {"maximum_iterations", attrs.integer("maximum_iterations")}};
    add_places(made.inputs, 0, loop.num_state);
    made.inputs.push_back(GuardedCall::kZero);
    add_places(made.inputs, loop.num_state, loop.num_condition);
    made.inputs.insert(made.inputs.end(), {GuardedCall::kCallId, GuardedCall::kHandle});
    add_places(made.inputs, loop.num_state + loop.num_condition, loop.num_body);
    made.inputs.push_back(GuardedCall::kCallId);
    return made;
  }

  int64_t& next_number_;  // of a change or a decision
  const std::string& container_;
};

}  // namespace

Node IdempotentRewriter::rewrite(Node node, const std::set<NodeOutput>& guarded,
                                 NodeOutput call_id) {
  const auto handle = std::ranges::find_if(
      node.inputs, [&](const NodeOutput input) { return guarded.contains(input); });
  if (handle == node.inputs.end()) return node;
  if (calls_functions(*node.op)) {
    return changes_some_of(guarded, graph_, node) ? rewrite_calls(std::move(node), guarded, call_id)
                                                  : node;
  }
  if (handle != node.inputs.begin() || !is_change(*node.op, node.attrs)) return node;
  const Specs specs = graph_.specs(node.inputs);
  node.attrs =
      once_attrs(function_of(*node.op, node.attrs, specs, node.site), next_number_++, container_);
  node.op = &kIdempotentUpdate;
  node.inputs.insert(node.inputs.begin(), call_id);
  return node;
}

Node IdempotentRewriter::rewrite_calls(Node node, const std::set<NodeOutput>& guarded,
                                       NodeOutput call_id) {
  const Places handles = places_of_handles(node, guarded);
  const NodeOutput handle =
      node.inputs[static_cast<size_t>(std::ranges::find(handles, true) - handles.begin())];
  const Shape& size = graph_.spec(call_id).shape;
  GuardedCall made = FunctionRewriter(next_number_, container_)
                         .rewrite(*node.op, node.attrs, handles, static_cast<int>(size[0]));
  const CallInputs<NodeOutput> given{
      .original = node.inputs,
      .call_id = call_id,
      .handle = handle,
      .decided =
          [&] {
            return NodeOutput{add_node(
                graph_, "Decided", kIdempotentUpdate, {call_id, handle, node.inputs[0]},
                once_attrs(decision(), next_number_++, container_), node.device, node.controls)};
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
