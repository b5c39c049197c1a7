#include "conformance/examples/shape.h"

#include <cmath>

#include "support/find_op.h"

namespace cohort::testing {

Tensor numbers(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    values.push_back(2 * std::sin(1.3 * static_cast<double>(i) + 0.4));
  }
  return Tensor::from(std::move(values), shape);
}

OpExample one_output(std::string_view op, Tensors inputs, std::function<Tensor(In)> call,
                     std::function<at::Tensor(TorchIn)> torch, std::vector<BadCall> bad_calls,
                     std::vector<Tensors> more_inputs) {
  OpExample made{.op = op, .inputs = std::move(inputs), .call = {}};
  made.call = [call](In in) { return Tensors{call(in)}; };
  if (torch) made.torch = [torch](TorchIn in) { return TorchOut{torch(in)}; };
  made.more_inputs = std::move(more_inputs);
  made.bad_calls = std::move(bad_calls);
  return made;
}

Tensor run(std::string_view op, In in, internal::Attrs attrs) {
  return internal::apply(internal::find_op(op), in, std::move(attrs), {});
}

std::vector<OpExample> view_examples() {
  const Tensor cube = numbers({2, 3, 4});
  return {
      one_output(
          "Reshape", {cube},
          [](In in) {
            return reshape(in[0], {4, -1});
          },
          [](TorchIn in) {
            return in[0].reshape({4, -1});
          },
          {{[] {
              reshape(ones({2, 3}), {4, 2});
            },
            "do not make up shape (4, 2)"},
           {[] {
              reshape(ones({2, 3}), {4, -1});
            },
            "do not make up"},
           {[] {
              reshape(ones({2, 3}), {-1, -1});
            },
            "at most one size may be -1"},
           {[] {
              reshape(ones({0}), {0, -1});
            },
            "another dimension has size 0"},
           {[] {
              reshape(ones({2}), {1L << 40, 1L << 40});
            },
            "does not fit into 64 bits"},
           {[] { reshape(Tensor(), {1}); }, "holds nothing", Code::FailedPrecondition}},
          {{numbers({4})}, {numbers({0, 3})}}),
      one_output(
          "Transpose", {cube},
          [](In in) {
            return transpose(in[0], {2, 0, -2});
          },
          [](TorchIn in) {
            return in[0].permute({2, 0, 1});
          },
          {{[] {
              transpose(ones({2, 3}), {0});
            },
            "names 1 dimensions, but the tensor has 2"},
           {[] {
              transpose(ones({2, 3}), {0, 2});
            },
            "axis 2 does not exist"},
           {[] {
              transpose(ones({2, 3}), {1, -1});
            },
            "named twice"}},
          {{numbers({0, 3, 2})}}),
      one_output(
          "Transpose", {cube}, [](In in) { return transpose(in[0]); },
          [](TorchIn in) {
            std::vector<int64_t> reversed;
            for (int64_t i = in[0].dim() - 1; i >= 0; --i) reversed.push_back(i);
            return in[0].permute(reversed);
          },
          {}, {{numbers({})}, {numbers({5})}, {numbers({3, 0})}}),
      one_output(
          "ExpandDims", {cube}, [](In in) { return expand_dims(in[0], -1); },
          [](TorchIn in) { return in[0].unsqueeze(-1); },
          {{[] { expand_dims(ones({2}), 2); }, "axis 2 does not exist"},
           {[] {
              expand_dims(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0);
            },
            "would have 9 dimensions"}},
          {{numbers({})}, {numbers({0})}}),
      one_output(
          "Squeeze", {numbers({1, 3, 1})}, [](In in) { return squeeze(in[0], {0}); },
          [](TorchIn in) { return in[0].squeeze(0); },
          {{[] {
              squeeze(ones({2, 1}), {0});
            },
            "has size 2, not 1"},
           {[] {
              squeeze(ones({2, 1}), {5});
            },
            "axis 5 does not exist"},
           {[] {
              squeeze(ones({1, 1}), {0, 0});
            },
            "named twice"}},
          {{numbers({1})}, {numbers({1, 0})}}),
      one_output(
          "Squeeze", {numbers({1, 3, 1})}, [](In in) { return squeeze(in[0]); },
          [](TorchIn in) { return in[0].squeeze(); }, {}, {{numbers({})}, {numbers({0, 1})}}),
      one_output(
          "BroadcastTo", {numbers({3, 1})},
          [](In in) {
            return broadcast_to(in[0], {2, 3, 4});
          },
          [](TorchIn in) {
            return in[0].expand({2, 3, 4});
          },
          {{[] { broadcast_to(ones({2}), {3}); }, "(2,) does not broadcast to (3,)"},
           {[] {
              broadcast_to(ones({2, 2}), {2});
            },
            "does not broadcast"},
           {[] { broadcast_to(ones({1}), {-1}); }, "every size must be given"},
           {[] { broadcast_to(ones({1}), {1L << 62}); }, "too large"}},
          {{numbers({})}, {numbers({1, 3, 4})}}),
      one_output(
          "Index", {cube}, [](In in) { return in[0][-1]; }, [](TorchIn in) { return in[0][-1]; },
          {{[] { ones({2})[2]; }, "index 2 is outside of a dimension of size 2",
            Code::InvalidArgument},
           {[] { ones({2})[-3]; }, "index -3", Code::InvalidArgument},
           {[] { ones({})[0]; }, "at least 1 dimension"}},
          {{numbers({5})}, {numbers({2, 0})}}),
      one_output(
          "IndexGrad", {numbers({3}), numbers({2, 3})},
          [](In in) {
            return run("IndexGrad", in, {{"index", int64_t{-1}}});
          },
          [](TorchIn in) {
            return at::stack({at::zeros_like(in[0]), in[0]});
          },
          {{[] {
              run("IndexGrad", Tensors{ones({2}), ones({2, 3})}, {{"index", int64_t{0}}});
            },
            "the gradient must have shape (3,), got (2,)"}}),
  };
}

std::vector<OpExample> shape_examples() {
  std::vector<OpExample> all;
  for (const auto& family :
       {view_examples, joining_examples, row_examples, creating_examples, ordering_examples}) {
    for (OpExample& made : family()) all.push_back(std::move(made));
  }
  return all;
}

}  // namespace cohort::testing
