#include "cohort/nn.h"

#include "conformance/op_example.h"
#include "ops/op.h"
#include "tensor/aten.h"

namespace cohort::testing {
namespace {

using internal::Attrs;
using Inputs = std::span<const Tensor>;
using TorchInputs = std::vector<at::Tensor>;
using Torch1 = std::function<at::Tensor(const at::Tensor&)>;

// Values between -2 and 2, all different, none near 0.
Tensor values(const Shape& shape, double phase = 0) {
  const at::Tensor wave =
      at::arange(shape.num_elements(), at::kDouble).mul(0.73).add(0.4 + phase).sin().mul(1.9);
  return internal::from_aten(wave.reshape(at::IntArrayRef(shape.begin(), shape.end())));
}

Tensor run(std::string_view op, std::initializer_list<Tensor> inputs, Attrs attrs = {}) {
  return internal::apply(internal::find_op(op), inputs, std::move(attrs));
}

std::vector<Tensor> run_many(std::string_view op, const Tensors& inputs, Attrs attrs = {}) {
  return internal::apply_many(internal::find_op(op), inputs, std::move(attrs), {});
}

BadCall bad(std::function<void()> call, std::string_view fragment) {
  return {std::move(call), fragment};
}

OpExample activation(std::string_view op, std::function<Tensor(const Tensor&)> function,
                     Torch1 torch) {
  return {.op = op,
          .inputs = {values({2, 5})},
          .call = [=](Inputs in) { return Tensors{function(in[0])}; },
          .torch = [=](const TorchInputs& in) { return TorchInputs{torch(in[0])}; },
          .more_inputs = {{zeros({0, 3}, kFloat64)}, {Tensor(-0.7)}, {values({2, 1, 3})}},
          .bad_calls = {bad(
              [=] {
                function(Tensor({1, 2}));
              },
              "input 0 is int32")}};
}

// The gradient op of an element-wise function: (g, x).
OpExample activation_gradient(std::string_view op, Attrs attrs = {}) {
  return {.op = op,
          .inputs = {values({2, 5}, 1), values({2, 5})},
          .call =
              [=](Inputs in) {
                return Tensors{run(op, {in[0], in[1]}, attrs)};
              },
          .more_inputs = {{zeros({0, 3}, kFloat64), zeros({0, 3}, kFloat64)}},
          .bad_calls = {bad(
                            [=] {
                              run(op, {values({2}), values({3})}, attrs);
                            },
                            "one shape"),
                        bad(
                            [=] {
                              run(op, {values({2}), ones({2})}, attrs);
                            },
                            "one dtype")}};
}

std::vector<OpExample> activation_examples() {
  return {
      activation("Relu", nn::relu, [](const at::Tensor& x) { return at::relu(x); }),
      activation(
          "Relu6", [](const Tensor& x) { return nn::relu6(x * 5.0); },
          [](const at::Tensor& x) { return at::relu6(x * 5.0); }),
      activation(
          "LeakyRelu", [](const Tensor& x) { return nn::leaky_relu(x, {.slope = 0.2}); },
          [](const at::Tensor& x) { return at::leaky_relu(x, 0.2); }),
      activation(
          "Elu", [](const Tensor& x) { return nn::elu(x, {.alpha = 1.5}); },
          [](const at::Tensor& x) { return at::elu(x, 1.5); }),
      activation("Gelu", nn::gelu, [](const at::Tensor& x) { return at::gelu(x); }),
      activation("Softplus", nn::softplus, [](const at::Tensor& x) { return at::softplus(x); }),
      activation_gradient("ReluGrad"),
      activation_gradient("Relu6Grad"),
      activation_gradient("LeakyReluGrad", {{"slope", 0.2}}),
      activation_gradient("EluGrad", {{"alpha", 1.5}}),
      activation_gradient("GeluGrad"),
  };
}

OpExample softmax_gradient(std::string_view op) {
  OpExample example = activation_gradient(op, {{"axis", int64_t{1}}});
  example.bad_calls.push_back(bad(
      [=] {
        run(op, {values({2}), values({2})}, {{"axis", int64_t{1}}});
      },
      "axis 1"));
  return example;
}

std::vector<OpExample> softmax_examples() {
  std::vector<OpExample> all;
  for (const auto& [op, function, torch] :
       {std::tuple{"Softmax",
                   OpFunction([](Inputs in) { return Tensors{nn::softmax(in[0], {.axis = 1})}; }),
                   Torch1([](const at::Tensor& x) { return at::softmax(x, 1); })},
        std::tuple{"LogSoftmax", OpFunction([](Inputs in) {
                     return Tensors{nn::log_softmax(in[0], {.axis = 1})};
                   }),
                   Torch1([](const at::Tensor& x) { return at::log_softmax(x, 1); })}}) {
    all.push_back(
        {.op = op,
         .inputs = {values({2, 5})},
         .call = function,
         .torch = [torch = torch](const TorchInputs& in) { return TorchInputs{torch(in[0])}; },
         .more_inputs = {{zeros({0, 3}, kFloat64)}, {values({2, 3, 2})}},
         .bad_calls = {bad([f = function] { f(Tensors{values({3})}); }, "axis 1"),
                       bad([f = function] { f(Tensors{Tensor(1.5)}); }, "at least 1 dimension")}});
  }
  all.push_back(softmax_gradient("SoftmaxGrad"));
  all.push_back(softmax_gradient("LogSoftmaxGrad"));
  return all;
}

// The suite converts all inputs alike; here an integer dtype is meant for the class ids.
Tensor sparse_loss(const Tensor& logits, const Tensor& labels, nn::LossOptions options = {}) {
  if (is_floating(logits.dtype())) return nn::softmax_cross_entropy(logits, labels, options);
  return nn::softmax_cross_entropy(cast(logits, kFloat64), cast(labels, logits.dtype()), options);
}

Tensor sparse_gradient(const Tensor& g, const Tensor& logits, const Tensor& labels) {
  const bool floating = is_floating(logits.dtype());
  const Tensor x = floating ? logits : cast(logits, kFloat64);
  return run("SoftmaxCrossEntropyGrad", {floating ? g : cast(g, kFloat64), x, nn::log_softmax(x),
                                         floating ? labels : cast(labels, logits.dtype())});
}

std::vector<OpExample> cross_entropy_examples() {
  const Tensor logits = values({3, 4});
  const Tensor labels({int64_t{2}, int64_t{0}, int64_t{3}});
  return {
      {.op = "SoftmaxCrossEntropy",
       .inputs = {logits, labels},
       .call =
           [](Inputs in) {
             return Tensors{sparse_loss(in[0], in[1], {.reduction = nn::Reduction::None}),
                            sparse_loss(in[0], in[1])};
           },
       .torch =
           [](const TorchInputs& in) {
             const at::Tensor losses =
                 at::nll_loss(at::log_softmax(in[0], -1), in[1], {}, at::Reduction::None);
             return TorchInputs{losses, losses.mean()};
           },
       .more_inputs = {{values({1, 1}), zeros({1}, kInt64)}},
       .bad_calls =
           {bad(
                [=] {
                  nn::softmax_cross_entropy(logits, Tensor({0, 4, 1}));
                },
                "label 4 at position 1 is not one of the 4 classes"),
            bad(
                [=] {
                  nn::softmax_cross_entropy(logits, Tensor({0, -1, 1}));
                },
                "label -1"),
            bad(
                [=] {
                  nn::softmax_cross_entropy(logits, Tensor({0, 1}));
                },
                "need class ids of shape (3,)"),
            bad([=] { nn::softmax_cross_entropy(Tensor(1.0), Tensor(0)); }, "at least 1 dimension"),
            bad(
                [=] {
                  nn::softmax_cross_entropy(Tensor({{1, 2}}), Tensor({0}));
                },
                "logits must be floating"),
            bad(
                [=] {
                  nn::softmax_cross_entropy(logits, values({3, 5}));
                },
                "must have the logits' shape (3, 4)"),
            bad([=] { nn::softmax_cross_entropy(logits, labels, {.global_batch_size = -1}); },
                "must not be negative")}},
      {.op = "SoftmaxCrossEntropyGrad",
       .inputs = {values({3}, 2), logits, labels},
       .call = [](Inputs in) { return Tensors{sparse_gradient(in[0], in[1], in[2])}; },
       .bad_calls = {bad([=] { sparse_gradient(values({2}), logits, labels); }, "does not fit")}},
  };
}

OpExample pairwise_loss(std::string_view op,
                        Tensor (*loss)(const Tensor&, const Tensor&, nn::LossOptions, Site),
                        at::Tensor (*torch)(const at::Tensor&, const at::Tensor&)) {
  const nn::LossOptions none{.reduction = nn::Reduction::None};
  return {.op = op,
          .inputs = {values({2, 3}), values({2, 3}, 2)},
          .call =
              [=](Inputs in) {
                return Tensors{loss(in[0], in[1], none, {}), loss(in[0], in[1], {}, {})};
              },
          .torch =
              [=](const TorchInputs& in) {
                const at::Tensor losses = torch(in[0], in[1]);
                return TorchInputs{losses, losses.mean()};
              },
          .more_inputs = {{Tensor(0.5), Tensor(0.25)}, {values({0, 2}), values({0, 2})}},
          .bad_calls = {bad(
                            [=] {
                              loss(values({2, 1}), values({2}), {}, {});
                            },
                            "one shape"),
                        bad(
                            [=] {
                              loss(values({2}), Tensor({"a", "b"}), {}, {});
                            },
                            "string"),
                        bad(
                            [=] {
                              loss(values({2}), values({2}),
                                   {.reduction = nn::Reduction::Sum, .global_batch_size = 4}, {});
                            },
                            "Reduction::Mean only")}};
}

at::Tensor torch_squared(const at::Tensor& a, const at::Tensor& b) { return (a - b).square(); }
at::Tensor torch_sigmoid_loss(const at::Tensor& x, const at::Tensor& labels) {
  return at::softplus(x) - x * labels;
}

std::vector<OpExample> loss_examples() {
  const Attrs mean{{"mean", true}, {"global_batch_size", int64_t{8}}};
  return {
      pairwise_loss("SquaredError", nn::mean_squared_error, torch_squared),
      pairwise_loss("SigmoidCrossEntropy", nn::sigmoid_cross_entropy, torch_sigmoid_loss),
      {.op = "L2Loss",
       .inputs = {values({2, 3})},
       .call = [](Inputs in) { return Tensors{nn::l2_loss(in[0])}; },
       .torch = [](const TorchInputs& in) { return TorchInputs{in[0].square().sum() / 2}; },
       .more_inputs = {{values({0})}, {Tensor(3.0)}},
       .bad_calls = {bad(
           [] {
             nn::l2_loss(Tensor({1, 2}));
           },
           "input 0 is int32")}},
      {.op = "ReduceLoss",
       .inputs = {values({2, 3})},
       .call = [=](Inputs in) { return Tensors{run("ReduceLoss", {in[0]}, mean)}; },
       .torch = [](const TorchInputs& in) { return TorchInputs{in[0].sum() / 24}; },
       .bad_calls = {bad(
           [] {
             run("ReduceLoss", {values({2})}, {{"mean", true}, {"global_batch_size", int64_t{-2}}});
           },
           "must not be negative")}},
      {.op = "ReduceLossGrad",
       .inputs = {Tensor(1.5), values({2, 3})},
       .call =
           [=](Inputs in) {
             return Tensors{run("ReduceLossGrad", {in[0], in[1]}, mean)};
           },
       .bad_calls = {bad(
           [=] {
             run("ReduceLossGrad", {values({2}), values({2})}, mean);
           },
           "must have 0 dimensions")}},
  };
}

std::vector<OpExample> dense_examples() {
  return {
      {.op = "BiasAdd",
       .inputs = {values({2, 3, 2}), values({3}, 1)},
       .call = [](Inputs in) { return Tensors{nn::bias_add(in[0], in[1], 1)}; },
       .torch =
           [](const TorchInputs& in) {
             return TorchInputs{in[0] + in[1].view({3, 1})};
           },
       .bad_calls = {bad(
                         [] {
                           nn::bias_add(values({2, 3}), values({2}));
                         },
                         "does not fit axis 1"),
                     bad(
                         [] {
                           nn::bias_add(values({2, 3}), values({3}), 2);
                         },
                         "axis 2"),
                     bad(
                         [] {
                           nn::bias_add(values({2, 3}), values({1, 3}));
                         },
                         "the bias")}},
      {.op = "Dense",
       .inputs = {values({4, 3}), values({3, 2}, 1), values({2}, 2)},
       .call = [](Inputs in) { return Tensors{nn::dense(in[0], in[1], in[2])}; },
       .torch = [](const TorchInputs& in) { return TorchInputs{at::addmm(in[2], in[0], in[1])}; },
       .more_inputs = {{values({0, 3}), values({3, 2}), values({2})}},
       .bad_calls = {bad(
                         [] {
                           nn::dense(values({2, 3}), values({2, 2}), values({2}));
                         },
                         "does not fit a kernel of shape (2, 2)"),
                     bad(
                         [] {
                           nn::dense(values({2, 3}), values({3, 2}), values({3}));
                         },
                         "a bias of shape (3,)"),
                     bad(
                         [] {
                           nn::dense(values({3}), values({3, 2}), values({2}));
                         },
                         "must have 2 dimensions")}},
  };
}

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
                         "is not that of the last dimensions"),
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

std::vector<OpExample> nn_examples() {
  std::vector<OpExample> all;
  for (const auto& family : {activation_examples, softmax_examples, cross_entropy_examples,
                             loss_examples, dense_examples, conv_examples, pool_examples,
                             batch_norm_examples, layer_norm_examples, dropout_examples}) {
    for (OpExample& example : family()) all.push_back(std::move(example));
  }
  return all;
}

}  // namespace cohort::testing
