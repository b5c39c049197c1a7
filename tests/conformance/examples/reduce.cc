// Examples of matmul, the reductions and the ops that pass their input on.

#include "conformance/op_example.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "support/find_op.h"

namespace cohort::testing {
namespace {

using In = std::span<const Tensor>;
using TorchIn = const std::vector<at::Tensor>&;
using TorchOut = std::vector<at::Tensor>;

const Tensor& values_2x3() {
  static const Tensor x({{0.3, -1.2, 2.5}, {1.7, 0.9, -0.4}});
  return x;
}
// A new tensor each time: gradients of one that is used twice add up.
Tensor cube() {
  return Tensor::from(std::vector<double>{0.5, -1.5, 2.0, 1.1, -0.7, 0.2, 1.3, -2.2}, {2, 2, 2});
}
Tensor empty(const Shape& shape) { return Tensor::from(std::vector<double>{}, shape); }

internal::Attrs over(std::vector<int64_t> axes) {
  return {{"axes", std::move(axes)}, {"all", false}, {"keep", false}};
}

OpExample matmul_example() {
  const Tensor right({{1.5, -0.5}, {0.2, 2.0}, {-1.0, 0.8}});
  const Tensor ints({{1, 2}, {3, 4}});
  return {
      .op = "MatMul",
      .inputs = {values_2x3(), right},
      .call = [](In x) -> Tensors { return {matmul(x[0], x[1])}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::matmul(x[0], x[1])}; },
      .more_inputs = {{cube(), cube()},
                      {cube(), Tensor({{1.0}, {2.0}})},
                      {Tensor({{1.0, 2.0}}), cube()},
                      {ints, ints},
                      {empty({0, 3}), right},
                      {empty({2, 0}), empty({0, 4})}},
      .bad_calls = {{[] { matmul(values_2x3(), values_2x3()); }, "inner sizes differ"},
                    {[] {
                       matmul(values_2x3(), Tensor({1.0, 2.0, 3.0}));
                     },
                     "at least 2 dimensions"},
                    {[] { matmul(values_2x3(), cast(values_2x3(), kFloat32)); }, "one dtype"}},
  };
}

OpExample transposed_matmul_example() {
  return {
      .op = "MatMul",
      .inputs = {values_2x3(), Tensor({{1.5, 0.7}, {0.2, 2.0}, {-1.0, 0.8}})},
      .call = [](In x) -> Tensors {
        return {matmul(x[0], x[1], {.transpose_a = true, .transpose_b = true})};
      },
      .torch = [](TorchIn x) -> TorchOut { return {at::matmul(x[0].mT(), x[1].mT())}; },
      .more_inputs = {{cube(), cube()}},
  };
}

OpExample sum_example() {
  return {
      .op = "Sum",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {sum(x[0], 0)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::sum(x[0], 0)}; },
      .more_inputs = {{cube()}, {empty({0, 3})}, {empty({3, 0})}, {Tensor({1.0})}},
      .bad_calls = {{[] { sum(values_2x3(), 2); }, "axis 2 does not exist"},
                    {[] {
                       sum(values_2x3(), {0, 0});
                     },
                     "named twice"},
                    {[] { sum(Tensor({"a"})); }, "is string"}},
  };
}

OpExample mean_example() {
  return {
      .op = "Mean",
      .inputs = {cube()},
      .call = [](In x) -> Tensors {
        return {mean(x[0], {0, -1}, KeepDims::Yes)};
      },
      .torch = [](TorchIn x) -> TorchOut {
        return {x[0].mean(at::IntArrayRef{0, -1}, true)};
      },
      .more_inputs = {{values_2x3()}},
      .bad_calls = {{[] { mean(values_2x3(), -3); }, "axis -3 does not exist"},
                    {[] { mean(Tensor({"a"})); }, "is string"}},
  };
}

OpExample prod_example() {
  return {
      .op = "Prod",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {prod(x[0], -1)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::prod(x[0], -1)}; },
      .more_inputs = {{cube()}, {Tensor({{0.0, 2.0}, {3.0, 0.0}})}, {empty({2, 0})}},
      .bad_calls = {{[] { prod(values_2x3(), 5); }, "axis 5 does not exist"}},
  };
}

OpExample prod_others_example() {
  return {
      .op = "ProdOthers",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors {
        return {internal::apply(internal::find_op("ProdOthers"), {x[0]}, over({1}))};
      },
      .torch = [](TorchIn x) -> TorchOut { return {at::prod(x[0], -1, true) / x[0]}; },
      .bad_calls = {{[] {
                       internal::apply(internal::find_op("ProdOthers"), {values_2x3()}, over({2}));
                     },
                     "axis 2 does not exist"}},
  };
}

OpExample prod_others_grad_example() {
  return {
      .op = "ProdOthersGrad",
      .inputs = {values_2x3(), Tensor({{1.0, 0.5, -2.0}, {0.3, 0.7, 1.1}})},
      .call = [](In x) -> Tensors {
        return {internal::apply(internal::find_op("ProdOthersGrad"), {x[0], x[1]}, over({1}))};
      },
      .torch = [](TorchIn x) -> TorchOut {
        // Over pairs: the sum of h[i] times the product without i and j, less the pair i = j.
        const at::Tensor others = at::prod(x[0], -1, true) / x[0];
        return {((x[1] / x[0]).sum(-1, true) - x[1] / x[0]) * others};
      },
  };
}

OpExample spread_example() {
  return {
      .op = "Spread",
      .inputs = {Tensor({1.5, -0.5, 2.0}), values_2x3()},
      .call = [](In x) -> Tensors {
        internal::Attrs attrs = over({0});
        attrs.set("mean", true);
        return {internal::apply(internal::find_op("Spread"), {x[0], x[1]}, attrs)};
      },
      .torch = [](TorchIn x) -> TorchOut {
        return {x[0].unsqueeze(0).expand(x[1].sizes()) / x[1].size(0)};
      },
      .bad_calls =
          {{[] {
              internal::Attrs attrs = over({0});
              attrs.set("mean", false);
              internal::apply(internal::find_op("Spread"), {values_2x3(), values_2x3()}, attrs);
            },
            "must have shape (3,)"}},
  };
}

OpExample max_example() {
  return {
      .op = "Max",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {max(x[0], 1, KeepDims::Yes)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::amax(x[0], 1, true)}; },
      .more_inputs = {{cube()}, {empty({0, 3})}},
      .bad_calls = {{[] { max(empty({0})); }, "has no elements to choose from"},
                    {[] { max(values_2x3(), 2); }, "axis 2 does not exist"}},
  };
}

OpExample min_example() {
  return {
      .op = "Min",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {min(x[0])}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::amin(x[0])}; },
      .more_inputs = {{cube()}, {Tensor(2.5)}},
      .bad_calls = {{[] {
                       min(empty({0, 2}), 0);
                     },
                     "has no elements to choose from"}},
  };
}

OpExample logsumexp_example() {
  return {
      .op = "LogSumExp",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {logsumexp(x[0], -1)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::logsumexp(x[0], -1)}; },
      .more_inputs = {{cube()}, {empty({2, 0})}},
      .bad_calls = {{[] {
                       logsumexp(Tensor({1, 2}));
                     },
                     "is int32"},
                    {[] { logsumexp(values_2x3(), 2); }, "axis 2 does not exist"}},
  };
}

OpExample any_example() {
  return {
      .op = "Any",
      .inputs = {Tensor({{true, false}, {false, false}})},
      .call = [](In x) -> Tensors { return {any(x[0], 1)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::any(x[0], 1)}; },
      .more_inputs = {{cast(empty({2, 0}), kBool)}},
      .bad_calls = {{[] { any(values_2x3()); }, "must be one of bool"}},
  };
}

OpExample all_example() {
  return {
      .op = "All",
      .inputs = {Tensor({{true, true}, {true, false}})},
      .call = [](In x) -> Tensors { return {all(x[0], 0)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::all(x[0], 0)}; },
      .more_inputs = {{cast(empty({0, 2}), kBool)}},
      .bad_calls = {{[] { all(values_2x3()); }, "must be one of bool"}},
  };
}

OpExample argmax_example() {
  return {
      .op = "ArgMax",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {argmax(x[0], -1)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::argmax(x[0], -1)}; },
      .more_inputs = {{cube()}, {empty({0, 3})}},
      .bad_calls = {{[] { argmax(empty({0})); }, "has no elements to choose from"},
                    {[] { argmax(Tensor(1.0)); }, "axis 0 does not exist"}},
  };
}

OpExample argmin_example() {
  return {
      .op = "ArgMin",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {argmin(x[0])}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::argmin(x[0], 0)}; },
      .bad_calls = {{[] { argmin(values_2x3(), 2); }, "axis 2 does not exist"}},
  };
}

OpExample cumsum_example() {
  return {
      .op = "CumSum",
      .inputs = {values_2x3()},
      .call = [](In x) -> Tensors { return {cumsum(x[0], 1)}; },
      .torch = [](TorchIn x) -> TorchOut { return {at::cumsum(x[0], 1)}; },
      .more_inputs = {{cube()}, {empty({2, 0})}},
      .bad_calls = {{[] { cumsum(Tensor(1.0)); }, "axis 0 does not exist"}},
  };
}

std::vector<OpExample> passing_examples() {
  const TorchFunction same = [](TorchIn x) -> TorchOut { return {x[0].clone()}; };
  return {
      {.op = "Identity",
       .inputs = {values_2x3()},
       .call = [](In x) -> Tensors { return {identity(x[0])}; },
       .torch = same,
       .more_inputs = {{Tensor(1.0)}, {empty({0})}}},
      {.op = "StopGradient",
       .inputs = {values_2x3()},
       .call = [](In x) -> Tensors { return {stop_gradient(x[0])}; },
       .shapes_only = true},
      {.op = "Group",
       .inputs = {values_2x3(), cube()},
       .call = [](In x) -> Tensors {
         return {group({x.begin(), x.end()})};
       },
       .shapes_only = true},
      {.op = "Print",
       .inputs = {Tensor(1.0)},
       .call = [](In x) -> Tensors { return {print(x[0], "printed by a test:")}; },
       .shapes_only = true},
      {.op = "TimelinePart",
       .inputs = {Tensor(int64_t{0}), values_2x3()},
       .call = [](In x) -> Tensors {
         return {internal::apply(internal::find_op("TimelinePart"), {x[0], x[1]},
                                 {{"part", std::string("forward")}})};
       },
       .shapes_only = true},
      {.op = "CheckNumerics",
       .inputs = {values_2x3()},
       .call = [](In x) -> Tensors { return {check_numerics(x[0], "x")}; },
       .torch = same,
       .more_inputs = {{Tensor(1.0)}, {empty({0})}},
       .bad_calls = {{[] { check_numerics(log(Tensor({-1.0})), "the loss"); },
                      "the loss: 1 NaN and 0 infinite"}}},
      {.op = "Require",
       .inputs = {values_2x3()},
       .call = [](In x) -> Tensors { return {internal::require_true(x[0], Tensor(true), "")}; },
       .torch = same,
       .more_inputs = {{Tensor(1.0)}, {empty({0})}},
       .bad_calls = {{[] { internal::require_true(Tensor(1.0), Tensor(false), "not so"); },
                      "not so"},
                     {[] { internal::require_true(Tensor(1.0), Tensor(1), ""); },
                      "must be a boolean scalar, got int32"}}},
  };
}

}  // namespace

std::vector<OpExample> reduce_examples() {
  std::vector<OpExample> examples = {matmul_example(),
                                     transposed_matmul_example(),
                                     sum_example(),
                                     mean_example(),
                                     prod_example(),
                                     prod_others_example(),
                                     spread_example(),
                                     max_example(),
                                     prod_others_grad_example(),
                                     min_example(),
                                     logsumexp_example(),
                                     any_example(),
                                     all_example(),
                                     argmax_example(),
                                     argmin_example(),
                                     cumsum_example()};
  for (OpExample& example : passing_examples()) examples.push_back(std::move(example));
  return examples;
}

}  // namespace cohort::testing
