#include "conformance/examples/shape.h"
#include "support/find_op.h"

namespace cohort::testing {

std::vector<OpExample> joining_examples() {
  const internal::Attrs last{{"axis", int64_t{-1}}};
  OpExample concat_grad{.op = "ConcatGrad",
                        .inputs = {numbers({2, 5}), numbers({2, 2}), numbers({2, 3})},
                        .call = {}};
  concat_grad.call = [last](In in) {
    return internal::apply_many(internal::find_op("ConcatGrad"), in, last, {});
  };
  concat_grad.torch = [](TorchIn in) { return in[0].split_with_sizes({2, 3}, -1); };
  concat_grad.bad_calls = {{[concat_grad] {
                              concat_grad.call(Tensors{ones({2}), ones({3})});
                            },
                            "the gradient must have shape (3,)"}};
  OpExample split_equal{.op = "Split", .inputs = {numbers({2, 6})}, .call = {}};
  split_equal.call = [](In in) { return split(in[0], 3, -1); };
  split_equal.torch = [](TorchIn in) { return in[0].chunk(3, -1); };
  split_equal.more_inputs = {{numbers({3})}, {numbers({0, 3})}};
  split_equal.bad_calls = {
      {[] { split(ones({5}), 2); }, "size 5 cannot be split into 2 equal parts"},
      {[] { split(ones({5}), 0); }, "the number of parts must be 1"},
      {[] { split(ones({5}), -1); }, "got -1"},
      {[] { split(ones({0}), int64_t{1} << 40); }, "the number of parts must be 1"},
      {[] { split(ones({5}), 5, 1); }, "axis 1 does not exist"}};
  OpExample split_sizes{.op = "Split", .inputs = {numbers({6, 2})}, .call = {}};
  split_sizes.call = [](In in) { return split(in[0], {1, -1, 2}); };
  split_sizes.torch = [](TorchIn in) {
    return in[0].split_with_sizes({1, in[0].size(0) - 3, 2}, 0);
  };
  split_sizes.more_inputs = {{numbers({3})}, {numbers({4, 0})}};
  split_sizes.bad_calls = {{[] {
                              split(ones({5}), {1, 2});
                            },
                            "sizes (1, 2) do not make up a dimension of size 5"},
                           {[] {
                              split(ones({5}), {6, -1});
                            },
                            "do not make up"},
                           {[] {
                              split(ones({5}), {INT64_MAX, INT64_MAX});
                            },
                            "do not make up"},
                           {[] {
                              split(ones({5}), {-1, -1});
                            },
                            "at most one size may be -1"},
                           {[] {
                              split(ones({5}), {-2, 7});
                            },
                            "got -2"}};
  OpExample unstacked{.op = "Unstack", .inputs = {numbers({2, 3})}, .call = {}};
  unstacked.needs_sizes = true;
  unstacked.call = [](In in) { return unstack(in[0], 1); };
  unstacked.torch = [](TorchIn in) { return in[0].unbind(1); };
  unstacked.more_inputs = {{numbers({0, 2})}, {numbers({2, 2, 2})}};
  unstacked.bad_calls = {{[] { unstack(ones({2}), 1); }, "axis 1 does not exist"},
                         {[] { unstack(ones({})); }, "axis 0 does not exist"}};
  return {
      one_output(
          "Concat", {numbers({2, 3}), numbers({2, 1})},
          [](In in) {
            return concat({in[0], in[1], in[0]}, -1);
          },
          [](TorchIn in) {
            return at::cat({in[0], in[1], in[0]}, -1);
          },
          {{[] { concat({}, 0); }, "at least one tensor"},
           {[] {
              concat({ones({2, 3}), ones({3, 2})}, 0);
            },
            "shapes (2, 3) and (3, 2)"},
           {[] {
              concat({ones({2, 3}), ones({2})}, 0);
            },
            "do not fit together"},
           {[] {
              concat({ones({2}), ones({2})}, 1);
            },
            "axis 1 does not exist"},
           {[] {
              concat({ones({}), ones({})}, 0);
            },
            "at least 1 dimension"},
           {[] {
              concat({ones({2}), Tensor({"a"})}, 0);
            },
            "no common dtype"},
           {[] {
              concat({ones({2}), Tensor()}, 0);
            },
            "holds nothing", Code::FailedPrecondition}},
          {{numbers({2, 0}), numbers({2, 2})}, {numbers({0}), numbers({3})}}),
      concat_grad,
      one_output(
          "Stack", {numbers({2, 3}), numbers({2, 3})},
          [](In in) {
            return stack({in[0], in[1]}, -1);
          },
          [](TorchIn in) {
            return at::stack({in[0], in[1]}, -1);
          },
          {{[] { stack({}); }, "at least one tensor"},
           {[] {
              stack({ones({2}), ones({3})});
            },
            "shapes (2,) and (3,)"},
           {[] { stack({ones({2})}, 2); }, "axis 2 does not exist"},
           {[] {
              stack({ones({1, 1, 1, 1, 1, 1, 1, 1})});
            },
            "would have 9 dimensions"}},
          {{numbers({}), numbers({})}, {numbers({0}), numbers({0})}}),
      split_equal,
      split_sizes,
      unstacked,
  };
}

}  // namespace cohort::testing
