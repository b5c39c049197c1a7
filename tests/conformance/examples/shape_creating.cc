#include <cmath>

#include "conformance/examples/shape.h"

namespace cohort::testing {
namespace {

constexpr int64_t kHuge = int64_t{1} << 60;

std::vector<OpExample> measuring_examples() {
  return {
      one_output(
          "Shape", {numbers({2, 3})}, [](In in) { return shape(in[0]); },
          [](TorchIn in) { return at::tensor(in[0].sizes(), at::kLong).reshape({in[0].dim()}); },
          {{[] { shape(Tensor()); }, "holds nothing", Code::FailedPrecondition}},
          {{numbers({})}, {numbers({0, 3})}}),
      one_output(
          "Size", {numbers({2, 3})}, [](In in) { return size(in[0]); },
          [](TorchIn in) { return at::scalar_tensor(in[0].numel(), at::kLong); }, {},
          {{numbers({})}, {numbers({0, 3})}}),
      one_output(
          "Rank", {numbers({2, 3})}, [](In in) { return rank(in[0]); },
          [](TorchIn in) { return at::scalar_tensor(in[0].dim(), at::kLong); }, {},
          {{numbers({})}, {numbers({0, 3})}}),
  };
}

std::vector<OpExample> filling_examples() {
  return {
      one_output(
          "Zeros", {},
          [](In) {
            return zeros({2, 3}, kFloat64);
          },
          [](TorchIn) {
            return at::zeros({2, 3}, at::kDouble);
          },
          {{[] {
              zeros({-1, 2});
            },
            "every size must be given and not negative"},
           {[] { zeros(Shape::unknown()); }, "every size must be given"},
           {[] { zeros({-2}); }, "size -2"},
           {[] {
              zeros({kHuge, kHuge});
            },
            "does not fit into 64 bits"},
           {[] { zeros({kHuge}); }, "too large"},
           {[] { zeros({2}, kString); }, "string values are not numbers"}}),
      one_output(
          "Ones", {},
          [](In) {
            return ones({2, 0}, kFloat64);
          },
          [](TorchIn) {
            return at::ones({2, 0}, at::kDouble);
          },
          {{[] {
              ones({2, -1});
            },
            "got shape (2, None)"},
           {[] { ones({kHuge}); }, "too large"}}),
      one_output(
          "Fill", {Tensor::from(std::vector<double>{1.5}, {})},
          [](In in) {
            return fill({2, 3}, in[0]);
          },
          [](TorchIn in) {
            return in[0].expand({2, 3});
          },
          {{[] { fill({2}, ones({2})); }, "the value must have 0 dimensions, got shape (2,)"},
           {[] { fill({-1}, 1.f); }, "every size must be given"},
           {[] { fill({2}, "a"); }, "input 0 is string"},
           {[] { fill({kHuge}, 1.f); }, "too large"}}),
      one_output(
          "ZerosLike", {numbers({2, 3})}, [](In in) { return zeros_like(in[0]); },
          [](TorchIn in) { return at::zeros_like(in[0]); },
          {{[] { zeros_like(Tensor("a")); }, "input 0 is string"}},
          {{numbers({})}, {numbers({0, 3})}}),
      one_output(
          "OnesLike", {numbers({2, 3})}, [](In in) { return ones_like(in[0]); },
          [](TorchIn in) { return at::ones_like(in[0]); },
          {{[] { ones_like(Tensor("a")); }, "input 0 is string"}},
          {{numbers({})}, {numbers({0, 3})}}),
      one_output(
          "FillLike", {numbers({2, 3})}, [](In in) { return fill_like(in[0], 1); },
          [](TorchIn in) { return at::full_like(in[0], 1); },
          {{[] { fill_like(ones({2}, kInt8), 128); }, "128 is not a value of int8"},
           {[] { fill_like(ones({2}, kInt64), 9.3e18); }, "is not a value of int64"}},
          {{numbers({})}, {numbers({0, 3})}}),
      one_output(
          "Eye", {}, [](In) { return eye(2, 3, kFloat64); },
          [](TorchIn) { return at::eye(2, 3, at::kDouble); },
          {{[] { eye(-1); }, "the number of rows must not be negative, got -1"},
           {[] { eye(1, -2); }, "the number of columns"},
           {[] { eye(kHuge); }, "does not fit into 64 bits"},
           {[] { eye(2, 2, kString); }, "string values are not numbers"}}),
  };
}

OpExample one_hot_example() {
  OpExample made = one_output(
      "OneHot", {Tensor({int64_t{0}, int64_t{2}, int64_t{1}})},
      [](In in) { return one_hot(in[0], 3, kFloat64); },
      [](TorchIn in) { return at::one_hot(in[0], 3).to(at::kDouble); },
      {{[] { one_hot(Tensor({1.0}), 2); }, "input 0 is float64"},
       {[] { one_hot(Tensor({1}), -1); }, "the depth must not be negative"},
       {[] { one_hot(Tensor({1}), kHuge); }, "too large"},
       {[] { one_hot(Tensor({1}), 2, kString); }, "string values are not numbers"}},
      {{Tensor::from(std::vector<int64_t>{1}, {})},
       {Tensor::from(std::vector<int64_t>{2, 2}, {2, 1})}});
  made.typed_inputs = {0};
  return made;
}

std::vector<OpExample> spacing_examples() {
  return {
      one_output(
          "Range", {}, [](In) { return range(2.0, -1.0, -0.5, kFloat64); },
          [](TorchIn) { return at::arange(2.0, -1.0, -0.5, at::kDouble); },
          {{[] { range(0, 1, 0); }, "the step must not be 0"},
           {[] { range(0, INFINITY, 1); }, "the limit must be finite, got inf"},
           {[] { range(NAN, 1, 1); }, "the start must be finite"},
           {[] { range(0, 1e30, 1); }, "more numbers than fit into memory"},
           {[] { range(0, 1, 0.5, kInt32); }, "0.5 is not a value of int32"},
           {[] { range(300, kUInt8); }, "299 is not a value of uint8"},
           {[] { range(2, kBool); }, "the dtype must be a number, got bool"}}),
      one_output(
          "Linspace", {}, [](In) { return linspace(-1, 2, 7, kFloat64); },
          [](TorchIn) { return at::linspace(-1, 2, 7, at::kDouble); },
          {{[] { linspace(0, 1, -1); }, "the count must not be negative, got -1"},
           {[] { linspace(0, 1, kHuge); }, "too large"},
           {[] { linspace(0, 1, 3, kInt32); }, "the dtype must be floating, got int32"},
           {[] { linspace(0, NAN, 3); }, "last must be finite"},
           {[] { linspace(0, 1e39, 3); }, "is not a value of float32"}}),
  };
}

}  // namespace

std::vector<OpExample> creating_examples() {
  std::vector<OpExample> all{one_hot_example()};
  for (const auto& family : {measuring_examples, filling_examples, spacing_examples}) {
    for (OpExample& made : family()) all.push_back(std::move(made));
  }
  return all;
}

std::vector<OpExample> ordering_examples() {
  OpExample top{.op = "TopK", .inputs = {numbers({2, 5})}, .call = {}};
  top.call = [](In in) {
    const TopK best = top_k(in[0], 2);
    return Tensors{best.values, best.indices};
  };
  top.torch = [](TorchIn in) {
    const auto [values, indices] = at::topk(in[0], 2);
    return TorchOut{values, indices};
  };
  top.more_inputs = {{numbers({2})}, {numbers({0, 3})}};
  top.bad_calls = {
      {[] { top_k(ones({3}), 4); }, "k is 4, but the last dimension of shape (3,) has 3"},
      {[] { top_k(ones({3}), -1); }, "k must not be negative"},
      {[] { top_k(ones({}), 1); }, "at least 1 dimension"}};
  OpExample different{.op = "Unique", .inputs = {Tensor({2.0, 1.0, 2.0, 3.0, 1.0})}, .call = {}};
  different.call = [](In in) {
    const Unique found = unique(in[0]);
    return Tensors{found.values, found.inverse, found.counts};
  };
  different.more_inputs = {{numbers({2, 2})}, {numbers({0})}, {numbers({})}};
  different.bad_calls = {{[] { unique(Tensor()); }, "holds nothing", Code::FailedPrecondition}};
  return {
      top,
      different,
      one_output(
          "Sort", {numbers({3, 4})}, [](In in) { return sort(in[0], 0); },
          [](TorchIn in) { return std::get<0>(at::sort(in[0], 0)); },
          {{[] { sort(ones({2}), 1); }, "axis 1 does not exist"},
           {[] { sort(ones({})); }, "axis -1 does not exist"},
           {[] { sort(Tensor({"a"})); }, "input 0 is string"}},
          {{numbers({5})}, {numbers({0, 2})}, {numbers({2, 3, 2})}}),
      one_output(
          "Sort", {numbers({3, 4})},
          [](In in) { return argsort(in[0], -1, SortOrder::Descending); },
          [](TorchIn in) { return at::argsort(in[0], -1, true); },
          {{[] { argsort(ones({2}), -2); }, "axis -2 does not exist"}}),
  };
}

}  // namespace cohort::testing
