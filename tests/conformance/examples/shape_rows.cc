#include "conformance/examples/shape.h"
#include "ops/table_rows.h"

namespace cohort::testing {
namespace {

std::vector<OpExample> selecting_examples() {
  const std::vector<Range> ranges{{.begin = 1, .end = -1}, {.step = -2}};
  const internal::Attrs slice_attrs{{"begin", std::vector<int64_t>{1, INT64_MAX}},
                                    {"end", std::vector<int64_t>{-1, INT64_MIN}},
                                    {"step", std::vector<int64_t>{1, -2}}};
  const auto torch_slice = [](const at::Tensor& x) {
    const int64_t last = x.size(1) - 1;
    return x.slice(0, 1, -1).slice(1, last % 2, last + 1, 2).flip(1);
  };
  const internal::Attrs twice{{"multiples", std::vector<int64_t>{2, 3}}};
  return {
      one_output(
          "Slice", {numbers({4, 5})}, [ranges](In in) { return slice(in[0], ranges); },
          [torch_slice](TorchIn in) { return torch_slice(in[0]); },
          {{[] { slice(ones({3}), {{.step = 0}}); }, "a step must not be 0"},
           {[] {
              slice(ones({3}), {{}, {}});
            },
            "2 ranges for a tensor of shape (3,)"}},
          {{numbers({3, 4})}, {numbers({2, 3, 2})}, {numbers({4, 1})}}),
      one_output(
          "SliceGrad", {numbers({2, 3}), numbers({4, 5})},
          [slice_attrs](In in) { return run("SliceGrad", in, slice_attrs); },
          [](TorchIn in) {
            const at::Tensor spread = at::stack({in[0].flip(1), at::zeros_like(in[0])}, 2);
            return at::constant_pad_nd(spread.reshape({2, 6}).slice(1, 0, 5), {0, 0, 1, 1});
          },
          {{[slice_attrs] {
              run("SliceGrad", Tensors{ones({3, 3}), ones({4, 5})}, slice_attrs);
            },
            "the gradient must have shape (2, 3)"}}),
      one_output(
          "Pad", {numbers({2, 3})},
          [](In in) {
            return pad(in[0], {{1, 0}, {2, 3}}, 1);
          },
          [](TorchIn in) {
            return at::constant_pad_nd(in[0], {2, 3, 1, 0}, 1);
          },
          {{[] { pad(ones({2}), {}); }, "one padding per dimension, got 0 for shape (2,)"},
           {[] {
              pad(ones({2}), {{-1, 0}});
            },
            "a padding must not be negative, got -1"},
           {[] {
              pad(ones({2}), {{0, INT64_MAX}});
            },
            "does not fit into 64 bits"},
           {[] {
              pad(ones({2}), {{0, int64_t{1} << 50}});
            },
            "too large"},
           {[] {
              pad(ones({2}, kUInt8), {{1, 1}}, 300);
            },
            "300 is not a value of uint8"},
           {[] {
              pad(ones({2}, kInt32), {{1, 1}}, 0.5);
            },
            "0.5 is not a value of int32"},
           {[] {
              pad(ones({2}, kBool), {{1, 1}}, 2);
            },
            "2 is not a value of bool"},
           {[] {
              pad(ones({2}, kFloat16), {{1, 1}}, 1e6);
            },
            "not a value of float16"}},
          {{numbers({1, 1})}, {numbers({0, 2})}}),
      one_output(
          "Tile", {numbers({2, 3})},
          [](In in) {
            return tile(in[0], {2, 3});
          },
          [](TorchIn in) {
            return in[0].repeat({2, 3});
          },
          {{[] { tile(ones({2}), {}); }, "one multiple per dimension, got 0 for shape (2,)"},
           {[] { tile(ones({2}), {-1}); }, "a multiple must not be negative"},
           {[] { tile(ones({4}), {INT64_MAX}); }, "does not fit into 64 bits"},
           {[] { tile(ones({4}), {int64_t{1} << 50}); }, "too large"}},
          {{numbers({0, 2})}}),
      one_output(
          "Repeat", {numbers({3, 2}), Tensor({int64_t{2}, int64_t{0}, int64_t{1}})},
          [](In in) { return run("Repeat", in, {}); },
          [](TorchIn in) { return in[0].repeat_interleave(in[1], 0); },
          {{[] {
              run("Repeat", Tensors{ones({2}), Tensor({1, -1})}, {});
            },
            "a number of repetitions must not be negative"},
           {[] {
              run("Repeat", Tensors{ones({2}), Tensor({1})}, {});
            },
            "the numbers of repetitions must have shape (2,), got (1,)"},
           {[] {
              run("Repeat", Tensors{ones({2}), Tensor({0.5, 1.0})}, {});
            },
            "the numbers of repetitions must be integers"},
           {[] {
              run("Repeat", Tensors{ones({}), Tensor({1})}, {});
            },
            "at least 1 dimension"},
           {[] {
              run("Repeat", Tensors{ones({1}), Tensor({int64_t{1} << 60})}, {});
            },
            "too large"}},
          {{numbers({2, 0}), Tensor({int64_t{1}, int64_t{3}})},
           {numbers({2}), zeros({2}, kInt64)}}),
      one_output(
          "TileGrad", {numbers({4, 6}), numbers({2, 2})},
          [twice](In in) { return run("TileGrad", in, twice); },
          [](TorchIn in) {
            return in[0].reshape({2, 2, 3, 2}).sum(at::IntArrayRef{0, 2});
          },
          {{[twice] {
              run("TileGrad", Tensors{ones({4, 4}), ones({2, 2})}, twice);
            },
            "the gradient must have shape (4, 6)"}}),
  };
}

}  // namespace

std::vector<OpExample> row_examples() {
  const Tensor rows = Tensor::from(std::vector<int64_t>{2, 0, 2, 1}, {2, 2});
  const internal::Attrs second{{"axis", int64_t{1}}};
  std::vector<OpExample> examples = selecting_examples();
  std::vector<OpExample> more = {
      one_output(
          "Gather", {numbers({3, 2}), rows}, [](In in) { return gather(in[0], in[1]); },
          [](TorchIn in) { return in[0].index({in[1]}); },
          {{[] { gather(ones({3}), Tensor({0.5})); }, "the indices must be integers, got float64"},
           {[] {
              gather(ones({3}), Tensor({0, 3}));
            },
            "index 3 is outside of a dimension of size 3", Code::InvalidArgument},
           {[] { gather(ones({3}), Tensor({-1})); }, "index -1", Code::InvalidArgument},
           {[] { gather(ones({3}), Tensor({0}), 1); }, "axis 1 does not exist"},
           {[] { gather(ones({0}), Tensor({0})); }, "size 0", Code::InvalidArgument},
           {[] {
              gather(ones({1, 1, 1, 1, 1, 1, 1, 1}), zeros({1, 1}, kInt32));
            },
            "would have 9 dimensions"}},
          {{numbers({3, 4}), zeros({0}, kInt64)},
           {numbers({4}), Tensor({int64_t{3}, int64_t{3}})}}),
      one_output(
          "Gather", {numbers({2, 3, 2}), rows}, [](In in) { return gather(in[0], in[1], -2); },
          [](TorchIn in) {
            return in[0].index_select(1, in[1].reshape({-1})).reshape({2, 2, 2, 2});
          },
          {}),
      one_output(
          "GatherGrad",
          {numbers({2, 4}), Tensor({int64_t{2}, int64_t{0}, int64_t{2}, int64_t{1}}),
           numbers({2, 3})},
          [second](In in) { return run("GatherGrad", in, second); },
          [](TorchIn in) { return at::zeros_like(in[2]).index_add(1, in[1], in[0]); },
          {{[second] {
              run("GatherGrad", Tensors{ones({2, 1}), Tensor({3}), ones({2, 3})}, second);
            },
            "index 3", Code::InvalidArgument}}),
      one_output(
          "Scatter", {Tensor({int64_t{2}, int64_t{0}, int64_t{2}}), numbers({3, 2})},
          [](In in) {
            return scatter(in[0], in[1], {4, 2});
          },
          [](TorchIn in) {
            return at::zeros({4, 2}, in[1].options()).index_add(0, in[0], in[1]);
          },
          {{[] { scatter(Tensor({1.0}), ones({1}), {2}); }, "the indices must be integers"},
           {[] { scatter(Tensor({0}), ones({2}), {2}); },
            "the values must have shape (1,), got (2,)"},
           {[] { scatter(Tensor({2}), ones({1}), {2}); }, "index 2", Code::InvalidArgument},
           {[] { scatter(Tensor({0}), ones({1}), {}); }, "at least 1 dimension"},
           {[] { scatter(Tensor({0}), ones({1}), {-1}); }, "every size must be given"},
           {[] { scatter(Tensor({0}), ones({1}), {1L << 60}); }, "too large"}},
          {{zeros({0}, kInt64), numbers({0, 2})}}),
      one_output(
          "TakeAlong", {numbers({3, 2}), rows},
          [](In in) { return internal::take_along(in[0], in[1], 0); },
          [](TorchIn in) { return in[0].gather(0, in[1]); },
          {{[] {
              internal::take_along(ones({2, 2}), zeros({3, 3}, kInt64), 0);
            },
            "the indices must have shape (None, 2)"}}),
      one_output(
          "AddAlong", {numbers({2, 2}), rows, numbers({3, 2})},
          [](In in) { return internal::add_along(in[0], in[1], in[2], 0); },
          [](TorchIn in) { return at::zeros_like(in[2]).scatter_add(0, in[1], in[0]); },
          {{[] { internal::add_along(ones({2}), zeros({3}, kInt64), ones({3}), 0); },
            "the values must have shape (3,)"}}),
  };
  for (OpExample& made : more) examples.push_back(std::move(made));
  return examples;
}

}  // namespace cohort::testing
