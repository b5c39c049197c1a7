// Examples of what only graphs have: sources, edges, handles, branches, loops and native functions.

#include "conformance/examples/graph.h"

#include "cohort/gradient.h"
#include "cohort/native_function.h"
#include "graph/function_graph.h"
#include "ops/variable_cell.h"
#include "support/find_op.h"

namespace cohort::testing {
Tensors apply_op(std::string_view op, const Tensors& inputs, const Attrs& attrs) {
  return internal::apply_many(internal::find_op(op), inputs, attrs, {});
}

OpExample calling(std::string_view op, OpFunction call, std::vector<BadCall> bad_calls) {
  return {.op = op,
          .inputs = {},
          .call = std::move(call),
          .bad_calls = std::move(bad_calls),
          .shapes_only = true};
}

OpExample adding(std::string_view op, const Tensors& inputs, const Attrs& attrs,
                 std::vector<BadCall> bad_calls) {
  return calling(
      op,
      [=](In) {
        Graph graph;
        const auto building = graph.as_default();
        apply_op(op, inputs, attrs);
        return Tensors{};
      },
      std::move(bad_calls));
}

BadCall bad(std::string_view op, const Tensors& inputs, const Attrs& attrs,
            std::string_view fragment, Code code) {
  return {[=] { apply_op(op, inputs, attrs); }, fragment, code};
}

namespace {

std::vector<OpExample> sources_and_edges() {
  const Attrs declared{{"dtype", kFloat32}, {"shape", Shape{2, -1}}};
  Attrs received = declared;
  received.set("edge", int64_t{3});
  received.set("tensor", std::string("x"));
  received.set("sender", std::string("/job:ps/replica:0/task:0"));
  return {
      adding("Placeholder", {}, declared,
             {bad("Placeholder", {}, declared, "no value was fed"),
              {[] { placeholder(kFloat32); }, "", Code::FailedPrecondition}}),
      adding("Argument", {}, declared,
             {bad("Argument", {}, declared, "was not called", Code::Internal)}),
      adding("Recv", {}, received, {bad("Recv", {}, received, "[Recv]", Code::FailedPrecondition)}),
      adding(
          "Send", {Tensor(1.f)}, {{"edge", int64_t{3}}},
          {bad("Send", {Tensor(1.f)}, {{"edge", int64_t{3}}}, "[Send]", Code::FailedPrecondition)}),
      calling("Const",
              [](In) {
                return apply_op("Const", {}, {{"value", Tensor({1.f, 2.f})}});
              }),
      {.op = "PlaceholderWithDefault",
       .inputs = {Tensor({{1.0, 2.0}, {3.0, 4.0}})},
       .call =
           [](In in) {
             return apply_op("PlaceholderWithDefault", {in[0]}, {{"shape", Shape::unknown()}});
           },
       .torch = [](const std::vector<at::Tensor>& in) { return in; },
       .more_inputs = {{Tensor(1.0)}, {zeros({0, 2}, kFloat64)}}},
  };
}

using FunctionPtr = std::shared_ptr<const internal::GraphFunction>;

// A function of tensors like these that captures nothing.
FunctionPtr function_of(In like, const internal::FunctionBody& body) {
  internal::Specs specs;
  for (const Tensor& tensor : like) specs.push_back({tensor.dtype(), tensor.shape()});
  return internal::closed(*internal::trace("body", specs, body));
}

Tensors choose(const Tensor& predicate, const Tensor& x, const Tensor& y) {
  const Tensors both{x, y};
  return apply_op(
      "Cond", {predicate, x, y, x, y},
      {{"then_branch", function_of(both, [](In in) { return Tensors{in[0] * in[1]}; })},
       {"else_branch", function_of(both, [](In in) { return Tensors{in[0] + in[1]}; })}});
}

// x times y plus y, three times, while a counter goes on.
Tensors loop(const Tensor& x, const Tensor& y) {
  const Tensors state{Tensor(0), x};
  const Tensors state_and_y{Tensor(0), x, y};
  return apply_op("While", {Tensor(0), x, y},
                  {{"condition", function_of(state, [](In in) { return Tensors{in[0] < 3}; })},
                   {"body", function_of(state_and_y,
                                        [](In in) {
                                          return Tensors{in[0] + 1, in[1] * in[2] + in[2]};
                                        })},
                   {"num_state", int64_t{2}},
                   {"maximum_iterations", int64_t{-1}}});
}

Attrs loop_attrs(int64_t num_state) {
  const Tensors state{Tensor(1.f)};
  const FunctionPtr same = function_of(state, [](In in) { return Tensors{in[0]}; });
  return {{"condition", same},
          {"body", same},
          {"num_state", num_state},
          {"maximum_iterations", int64_t{-1}}};
}

std::vector<OpExample> branches_and_loops() {
  const Tensor x({1.0, 2.0, 3.0});
  const Tensor y({0.5, -1.0, 2.0});
  return {
      {.op = "Cond",
       .inputs = {Tensor(true), x, y},
       .call = [](In in) { return choose(in[0], in[1], in[2]); },
       .torch = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
         return {in[0].item<bool>() ? in[1] * in[2] : in[1] + in[2]};
       },
       .more_inputs = {{Tensor(false), x, y}},
       .bad_calls = {{[=] { choose(Tensor(1.0), x, y); }, "the predicate must be one bool"},
                     {[=] {
                        choose(Tensor({true, false}), x, y);
                      },
                      "must be one bool"}},
       .typed_inputs = {1, 2}},
      {.op = "While",
       .inputs = {x, y},
       .call = [](In in) { return Tensors{loop(in[0], in[1])[1]}; },
       .torch = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
         at::Tensor state = in[0];
         for (int i = 0; i < 3; ++i) state = state * in[1] + in[1];
         return {state};
       },
       .bad_calls = {bad("While", {Tensor(1.f)}, loop_attrs(1), "must return one bool"),
                     bad("While", {Tensor(1.f)}, loop_attrs(2), "do not fit a state of 2")}},
      calling("WhileGrad",
              [=](In) {
                GradientTape tape;
                const Tensor source = identity(x);
                tape.watch(source);
                return Tensors{tape.gradient(loop(source, y)[1], source)};
              }),
  };
}

std::vector<OpExample> updates() {
  const Tensor claim({int64_t{1}, int64_t{1}, int64_t{1}});
  const Tensor two(2.f);
  const auto variable = [] {
    return internal::make_resource(std::make_shared<internal::VariableCell>("v", Tensor(1.f)));
  };
  const Attrs attrs{{"update", function_of(Tensors{variable(), two},
                                           [](In in) {
                                             return apply_op(
                                                 "AssignAddVariable", {in[0], in[1]},
                                                 {{"dtype", kFloat32}, {"shape", Shape{}}});
                                           })},
                    {"number", int64_t{0}},
                    {"container", std::string("localhost")}};
  const Attrs kept{{"container", std::string("localhost")}};
  const Attrs result{{"container", std::string("localhost")},
                     {"output", int64_t{0}},
                     {"dtype", kFloat32},
                     {"shape", Shape{}}};
  return {calling("IdempotentUpdate",
                  [=](In) {
                    return apply_op("IdempotentUpdate", {claim, variable(), two}, attrs);
                  },
                  {bad("IdempotentUpdate", {two, variable(), two}, attrs, "must be three int64"),
                   bad("IdempotentUpdate", {claim, two, two}, attrs, "the handle of state"),
                   bad("IdempotentUpdate", {claim, variable()}, attrs, "takes 2 tensors, got 1")}),
          adding("KeepResults", {Tensor({int64_t{7}}), two}, kept,
                 {bad("KeepResults", {two, two}, kept, "the int64 number of a call")}),
          adding("KeptResult", {Tensor(int64_t{7})}, result,
                 {bad("KeptResult", {claim}, result, "the int64 number of a call")}),
          adding("ForgetState", {Tensor({"unknown"})}, kept,
                 {bad("ForgetState", {two}, kept, "a vector of names")})};
}

Tensor times(const Tensor& x, const Tensor& y) { return x * y; }

COHORT_FUNCTION_WITH_GRADIENT(example_times, times, [](In inputs, In, In output_gradients) {
  return Tensors{output_gradients[0] * inputs[1], output_gradients[0] * inputs[0]};
});

Tensors call_times(In in) {
  return call_native("example_times", {in[0], in[1]}, {{in[0].dtype(), in[0].shape()}});
}

std::vector<OpExample> native_functions() {
  const Tensor x({1.0, 2.0});
  const Tensor y({3.0, 4.0});
  return {
      {.op = "NativeFunction",
       .inputs = {x, y},
       .call = call_times,
       .torch =
           [](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{in[0] * in[1]}; },
       .bad_calls = {{[=] { call_native("nowhere", {x}, {{kFloat64}}); }, "no function 'nowhere'",
                      Code::NotFound},
                     {[=] {
                        call_native("example_times", {x, y}, {{kFloat32}});
                      },
                      "returned float64 (2,) for output 0"},
                     {[=] { call_native("example_times", {x}, {{kFloat64}}); },
                      "the function takes 2 tensors, got 1"}},
       .typed_inputs = {0, 1}},
      calling("NativeFunctionGrad",
              [=](In) {
                GradientTape tape;
                const Tensor source = identity(x);
                tape.watch(source);
                const Tensors inputs{source, y};
                return Tensors{tape.gradient(call_times(inputs)[0], source)};
              },
              {bad("NativeFunctionGrad", {x},
                   {{"name", std::string("example_times")},
                    {"num_inputs", int64_t{2}},
                    {"num_outputs", int64_t{1}}},
                   "too few for 2 inputs and 1 outputs")}),
  };
}

}  // namespace

std::vector<OpExample> graph_examples() {
  const Attrs variable{{"container", std::string("localhost")}, {"shared_name", std::string("v")}};
  std::vector<OpExample> all{
      adding("VariableHandle", {}, variable,
             {bad("VariableHandle", {}, variable, "[VariableHandle]", Code::FailedPrecondition)})};
  for (const auto& family :
       {sources_and_edges, branches_and_loops, updates, native_functions, queue_examples,
        accumulator_examples, iterator_examples, shard_examples}) {
    for (OpExample& example : family()) all.push_back(std::move(example));
  }
  return all;
}

}  // namespace cohort::testing
