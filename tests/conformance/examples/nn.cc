#include "conformance/examples/nn.h"

namespace cohort::testing {
namespace {

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

OpExample relu6() {
  OpExample example =
      activation("Relu6", nn::relu6, [](const at::Tensor& x) { return at::relu6(x); });
  example.inputs = {values({2, 5}) * 5.0};
  return example;
}

std::vector<OpExample> activation_examples() {
  return {
      relu6(),
      activation("Relu", nn::relu, [](const at::Tensor& x) { return at::relu(x); }),
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
  const auto call = [=](const Shape& g, const Shape& y) {
    return [=] { run(op, {values(g), values(y)}, {{"axis", int64_t{1}}}); };
  };
  example.bad_calls = {bad(call({2, 3}, {2, 4}), "one shape"), bad(call({2}, {2}), "axis 1")};
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

}  // namespace

std::vector<OpExample> nn_examples() {
  std::vector<OpExample> all;
  for (const auto& family : {activation_examples, softmax_examples, cross_entropy_examples,
                             loss_examples, dense_examples, nn_image_examples, nn_norm_examples}) {
    for (OpExample& example : family()) all.push_back(std::move(example));
  }
  return all;
}

}  // namespace cohort::testing
