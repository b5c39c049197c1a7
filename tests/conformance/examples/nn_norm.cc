#include "conformance/examples/nn.h"

namespace cohort::testing {
namespace {

Tensor batch_norm_gradient(Inputs in, size_t which) {
  const Attrs attrs{{"epsilon", 1e-2}};
  const Tensors forward = run_many("BatchNorm", {in[1], in[2], in[2]}, attrs);
  return run_many("BatchNormGrad", {in[0], in[1], in[2], forward[1], forward[3]}, attrs)[which];
}

Tensor layer_norm_gradient(Inputs in, size_t which) {
  const Tensors forward = run_many("LayerNorm", {in[1], in[2], in[2]}, Attrs{{"epsilon", 1e-2}});
  return run_many("LayerNormGrad", {in[0], in[1], in[2], forward[1], forward[2]})[which];
}

Tensor positive(const Shape& shape) { return square(values(shape)) + 0.5; }

std::vector<OpExample> batch_norm_examples() {
  const Tensor x = values({3, 2, 2, 2});
  const Tensor scale = values({2}, 1);
  const Tensor offset = values({2}, 2);
  return {
      {.op = "BatchNorm",
       .inputs = {x, scale, offset},
       .call =
           [](Inputs in) {
             return Tensors{nn::batch_norm(in[0], in[1], in[2], {.epsilon = 1e-2}).y};
           },
       .torch =
           [](const TorchInputs& in) {
             return TorchInputs{at::batch_norm(in[0], in[1], in[2], {}, {}, true, 0, 1e-2, false)};
           },
       .more_inputs = {{values({4, 2}), scale, offset}},
       .bad_calls = {bad([=] { nn::batch_norm(x, values({3}), offset); },
                         "the scale must have shape (2,)"),
                     bad([=] { nn::batch_norm(x, scale, values({1})); }, "the offset"),
                     bad([=] { nn::batch_norm(scale, scale, offset); }, "at least 2 dimensions"),
                     bad([=] { nn::batch_norm(x, scale, offset, {.epsilon = -1}); },
                         "epsilon must not be negative")}},
      {.op = "BatchNormGrad",
       .inputs = {values({3, 2, 2, 2}, 3), x, scale},
       .call =
           [](Inputs in) {
             return Tensors{batch_norm_gradient(in, 0), batch_norm_gradient(in, 1),
                            batch_norm_gradient(in, 2)};
           },
       .bad_calls = {bad(
           [=] {
             run_many("BatchNormGrad", {x, x, scale, scale, values({3})}, {{"epsilon", 1e-2}});
           },
           "one element per channel")}},
      {.op = "BatchNormInference",
       .inputs = {x, scale, offset, values({2}, 3), positive({2})},
       .call =
           [](Inputs in) {
             return Tensors{nn::batch_norm(in[0], in[1], in[2], in[3], in[4], {.epsilon = 1e-2})};
           },
       .more_inputs = {{values({4, 2}), scale, offset, values({2}), positive({2})},
                       {zeros({0, 2}, kFloat64), scale, offset, values({2}), positive({2})}},
       .bad_calls = {bad([=] { nn::batch_norm(x, scale, offset, values({3}), offset); },
                         "the mean"),
                     bad([=] { nn::batch_norm(x, scale, offset, offset, values({3})); },
                         "the variance")}},
  };
}

std::vector<OpExample> layer_norm_examples() {
  const Tensor x = values({3, 2, 4});
  const Tensor scale = values({2, 4}, 1);
  const Tensor offset = values({2, 4}, 2);
  return {
      {.op = "LayerNorm",
       .inputs = {x, scale, offset},
       .call =
           [](Inputs in) {
             return Tensors{nn::layer_norm(in[0], in[1], in[2], {.epsilon = 1e-2})};
           },
       .torch =
           [](const TorchInputs& in) {
             return TorchInputs{at::layer_norm(in[0], in[1].sizes(), in[1], in[2], 1e-2)};
           },
       .more_inputs = {{values({3, 4}), values({4}), values({4})},
                       {zeros({0, 4}, kFloat64), values({4}), values({4})}},
       .bad_calls = {bad([=] { nn::layer_norm(x, values({3}), values({3})); },
                         "must equal the last dimensions"),
                     bad([=] { nn::layer_norm(x, scale, values({4})); }, "one shape"),
                     bad([=] { nn::layer_norm(values({4}), scale, offset); }, "last dimensions"),
                     bad([=] { nn::layer_norm(x, scale, offset, {.epsilon = -1}); }, "epsilon")}},
      {.op = "LayerNormGrad",
       .inputs = {values({3, 2, 4}, 3), x, scale},
       .call =
           [](Inputs in) {
             return Tensors{layer_norm_gradient(in, 0), layer_norm_gradient(in, 1),
                            layer_norm_gradient(in, 2)};
           },
       .bad_calls = {bad(
           [=] {
             run_many("LayerNormGrad", {x, x, scale, scale, scale});
           },
           "statistics must have shape (3, 1, 1)")}},
  };
}

std::vector<OpExample> dropout_examples() {
  return {{.op = "DropoutMask",
           .inputs = {values({2, 3})},
           .call = [](Inputs in) { return Tensors{nn::dropout(in[0])}; },
           .bad_calls = {bad([] { nn::dropout(values({2}), {.rate = 1}); }, "less than 1, got 1"),
                         bad([] { nn::dropout(values({2}), {.rate = -0.1}); }, "at least 0"),
                         bad(
                             [] {
                               nn::dropout(Tensor({1, 2}));
                             },
                             "must be floating")},
           .shapes_only = true}};
}

}  // namespace

std::vector<OpExample> nn_norm_examples() {
  std::vector<OpExample> all;
  for (const auto& family : {batch_norm_examples, layer_norm_examples, dropout_examples}) {
    for (OpExample& example : family()) all.push_back(std::move(example));
  }
  return all;
}

}  // namespace cohort::testing
