#include "conformance/examples/nn.h"

namespace cohort::testing {
namespace {

const nn::Conv2dOptions kConv{.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2};
const nn::Conv2dOptions kSameConv{.stride = 2, .padding = nn::PaddingMode::Same};

Attrs conv_attrs() {
  return {{"stride", std::vector<int64_t>{2, 1}},
          {"dilation", std::vector<int64_t>{1, 2}},
          {"padding", std::vector<int64_t>{1, 2}},
          {"same", false},
          {"groups", int64_t{2}}};
}

std::vector<OpExample> conv_examples() {
  const Tensor x = values({2, 4, 5, 6});
  const Tensor kernel = values({2, 2, 3, 2}, 1);
  const Tensor bias = values({2}, 2);
  const Tensor g = nn::conv2d(x, kernel, kConv);
  const auto conv = [=](const Shape& input, const Shape& window, nn::Conv2dOptions options) {
    return [=] { nn::conv2d(values(input), values(window), options); };
  };
  return {
      {.op = "Conv2d",
       .inputs = {x, kernel, bias},
       .call = [](Inputs in) { return Tensors{nn::conv2d(in[0], in[1], in[2], kConv)}; },
       .torch =
           [](const TorchInputs& in) {
             return TorchInputs{
                 at::conv2d(in[0], in[1], in[2], {2, 1}, at::IntArrayRef({1, 2}), {1, 2}, 2)};
           },
       .more_inputs = {{zeros({0, 4, 5, 6}, kFloat64), kernel, bias}},
       .bad_calls =
           {bad(conv({2, 3, 5, 5}, {2, 2, 3, 3}, {}), "has 3 channels"),
            bad(conv({2, 3, 5}, {2, 3, 3, 3}, {}), "the input must have 4 dimensions"),
            bad(conv({2, 3, 5, 5}, {2, 3, 3}, {}), "the kernel must have 4 dimensions"),
            bad(conv({2, 3, 2, 5}, {2, 3, 3, 3}, {}), "does not fit into 2 of the input"),
            bad(conv({2, 3, 5, 5}, {2, 3, 3, 3}, {.stride = 0}), "the stride must be at least 1"),
            bad(conv({2, 3, 5, 5}, {2, 3, 3, 3}, {.dilation = -1}), "the dilation"),
            bad(conv({2, 3, 5, 5}, {2, 3, 3, 3}, {.padding = -1}), "the padding"),
            bad(conv({2, 3, 5, 5}, {2, 3, 0, 3}, {}), "the window must be at least 1"),
            bad(conv({2, 3, 5, 5}, {2, 3, 3, 3}, {.groups = 0}), "groups must be at least 1"),
            bad(conv({2, 4, 5, 5}, {3, 2, 3, 3}, {.groups = 2}), "cannot be split into 2 group(s)"),
            bad([=] { nn::conv2d(x, kernel, values({3}), kConv); }, "one element per channel"),
            bad([=] { nn::conv2d(x, cast(kernel, kFloat32), kConv); }, "one dtype")}},
      {.op = "Conv2d",
       .inputs = {values({1, 2, 5, 6}), values({2, 2, 2, 3}, 1)},
       .call = [](Inputs in) { return Tensors{nn::conv2d(in[0], in[1], kSameConv)}; },
       .torch =
           [](const TorchInputs& in) {
             const at::Tensor padded = at::constant_pad_nd(in[0], {0, 1, 0, 1}, 0);
             return TorchInputs{at::conv2d(padded, in[1], {}, {2, 2})};
           }},
      {.op = "Conv2dInputGrad",
       .inputs = {g, kernel, x},
       .call =
           [](Inputs in) {
             return Tensors{run("Conv2dInputGrad", {in[0], in[1], in[2]}, conv_attrs())};
           },
       .bad_calls = {bad(
           [=] {
             run("Conv2dInputGrad", {x, kernel, x}, conv_attrs());
           },
           "does not fit an output")}},
      {.op = "Conv2dKernelGrad",
       .inputs = {g, x, kernel},
       .call =
           [](Inputs in) {
             return Tensors{run("Conv2dKernelGrad", {in[0], in[1], in[2]}, conv_attrs())};
           },
       .bad_calls = {bad(
           [=] {
             run("Conv2dKernelGrad", {x, x, kernel}, conv_attrs());
           },
           "does not fit an output")}},
  };
}

Attrs pool_attrs(bool same) {
  return {{"window", std::vector<int64_t>{2, 3}},
          {"stride", std::vector<int64_t>{2, 2}},
          {"padding", std::vector<int64_t>{same ? 0 : 1, same ? 0 : 1}},
          {"same", same}};
}

OpExample pool(std::string_view op,
               Tensor (*function)(const Tensor&, nn::Size2d, const nn::Pool2dOptions&, Site),
               Torch1 torch) {
  const auto call = [=](const Shape& shape, nn::Size2d window, nn::Pool2dOptions options) {
    return [=] { function(values(shape), window, options, {}); };
  };
  return {.op = op,
          .inputs = {values({2, 2, 4, 5})},
          .call =
              [=](Inputs in) {
                return Tensors{function(in[0], {2, 3}, {.stride = 2, .padding = 1}, {})};
              },
          .torch = [=](const TorchInputs& in) { return TorchInputs{torch(in[0])}; },
          .more_inputs = {{zeros({0, 1, 4, 5}, kFloat64)}},
          .bad_calls = {bad(call({2, 3, 4}, 2, {}), "must have 4 dimensions"),
                        bad(call({2, 3, 4, 1}, 2, {}), "does not fit"),
                        bad(call({2, 3, 4, 4}, 0, {}), "the window must be at least 1"),
                        bad(call({2, 3, 4, 4}, 2, {.stride = -1}), "the stride"),
                        bad(call({2, 3, 4, 4}, 2, {.padding = 2}), "more than half the window"),
                        bad(call({2, 0, 4, 4}, 2, {}), "no channels"),
                        bad(call({2, 1, 0, 4}, 2, {}), "empty")}};
}

// With padding that has an odd row at the bottom, which torch has not.
OpExample same_pool(std::string_view op,
                    Tensor (*function)(const Tensor&, nn::Size2d, const nn::Pool2dOptions&, Site)) {
  return {.op = op, .inputs = {values({1, 2, 5, 5})}, .call = [=](Inputs in) {
            return Tensors{
                function(in[0], {2, 3}, {.stride = 2, .padding = nn::PaddingMode::Same}, {})};
          }};
}

Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, kFloat64); }

std::vector<OpExample> pool_gradient_examples() {
  std::vector<OpExample> all;
  for (const bool same : {false, true}) {
    const Tensor x = values({2, 2, 5, 5});
    const Tensors pooled = run_many("MaxPool2d", {x}, pool_attrs(same));
    const Tensor g = pooled[0];
    const Tensor indices = pooled[1];
    all.push_back(
        {.op = "MaxPool2dGrad",
         .inputs = {g, x, indices},
         .call =
             [=](Inputs in) {
               return Tensors{run("MaxPool2dGrad", {floating(in[0]), floating(in[1]), in[2]},
                                  pool_attrs(same))};
             },
         .bad_calls = {bad(
                           [=] {
                             run("MaxPool2dGrad", {x, x, indices}, pool_attrs(same));
                           },
                           "does not fit"),
                       bad(
                           [=] {
                             run("MaxPool2dGrad", {g, x, indices + 100}, pool_attrs(same));
                           },
                           "outside of the plane")}});
    all.push_back(
        {.op = "MaxPool2dPick",
         .inputs = {x, indices},
         .call =
             [=](Inputs in) {
               return Tensors{run("MaxPool2dPick", {floating(in[0]), in[1]}, pool_attrs(same))};
             },
         .bad_calls = {bad(
             [=] {
               run("MaxPool2dPick", {x, x}, pool_attrs(same));
             },
             "indices must be int64")}});
    all.push_back({.op = "AvgPool2dGrad",
                   .inputs = {g, x},
                   .call =
                       [=](Inputs in) {
                         return Tensors{run("AvgPool2dGrad", {in[0], in[1]}, pool_attrs(same))};
                       },
                   .bad_calls = {bad(
                       [=] {
                         run("AvgPool2dGrad", {x, x}, pool_attrs(same));
                       },
                       "does not fit")}});
  }
  return all;
}

std::vector<OpExample> pool_examples() {
  std::vector<OpExample> all = pool_gradient_examples();
  all.push_back(pool("MaxPool2d", nn::max_pool2d, [](const at::Tensor& x) {
    return at::max_pool2d(x, {2, 3}, 2, 1);
  }));
  all.push_back(pool("AvgPool2d", nn::avg_pool2d, [](const at::Tensor& x) {
    return at::avg_pool2d(x, {2, 3}, 2, 1, false, false);
  }));
  all.push_back(same_pool("MaxPool2d", nn::max_pool2d));
  all.push_back(same_pool("AvgPool2d", nn::avg_pool2d));
  return all;
}

}  // namespace

std::vector<OpExample> nn_image_examples() {
  std::vector<OpExample> all;
  for (const auto& family : {conv_examples, pool_examples}) {
    for (OpExample& example : family()) all.push_back(std::move(example));
  }
  return all;
}

}  // namespace cohort::testing
