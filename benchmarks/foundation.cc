// A training step and a single op, beside the same with torch::nn, torch's autograd and
// torch::optim. Columns: ours, torch's, ours / torch's, what is aimed at.

#include <cohort/torch.h>

#include "models.h"
#include "ratio.h"

namespace {

using cohort::bench::Contest;
using cohort::bench::run;

constexpr int64_t kBatch = 128;

struct TorchMlp : torch::nn::Module {
  torch::nn::Linear a{register_module("a", torch::nn::Linear(784, 512))};
  torch::nn::Linear b{register_module("b", torch::nn::Linear(512, 512))};
  torch::nn::Linear c{register_module("c", torch::nn::Linear(512, 10))};
  torch::Tensor forward(const torch::Tensor& x) { return c(torch::relu(b(torch::relu(a(x))))); }
};

struct TorchCnn : torch::nn::Module {
  torch::nn::Conv2d a{
      register_module("a", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 5).padding(2)))};
  torch::nn::Conv2d b{register_module("b", torch::nn::Conv2d(6, 16, 5))};
  torch::nn::Linear c{register_module("c", torch::nn::Linear(400, 120))};
  torch::nn::Linear d{register_module("d", torch::nn::Linear(120, 84))};
  torch::nn::Linear e{register_module("e", torch::nn::Linear(84, 10))};
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::max_pool2d(torch::relu(a(x)), 2);
    y = torch::max_pool2d(torch::relu(b(y)), 2).flatten(1);
    return e(torch::relu(d(torch::relu(c(y)))));
  }
};

// Forward, backward and one SGD update, for a model of either kind on the same batch.
template <typename Net>
Contest step_contest(const std::string& name, cohort::nn::Sequential model,
                     const torch::Tensor& images) {
  const torch::Tensor labels = torch::randint(10, {images.size(0)}, torch::kLong);
  auto net = std::make_shared<Net>();
  auto theirs = std::make_shared<torch::optim::SGD>(net->parameters(), 0.01);
  auto ours =
      std::make_shared<cohort::optim::Sgd>(cohort::optim::SgdOptions{.learning_rate = 0.01});
  const cohort::Tensor our_images(images);
  const cohort::Tensor our_labels(labels);
  return {.name = name,
          .ours =
              [=]() mutable {
                cohort::GradientTape tape;
                const cohort::Tensor loss =
                    cohort::nn::softmax_cross_entropy(model(our_images), our_labels);
                ours->apply_gradients(tape.gradient(loss, model.variables()), model.variables());
              },
          .theirs =
              [=] {
                theirs->zero_grad();
                torch::nll_loss(torch::log_softmax(net->forward(images), 1), labels).backward();
                theirs->step();
              },
          .calls = 5,
          .rounds = 41,
          .limit = 1.00};
}

// Ops whose loops are ours (src/kernels) beside the kernel library's.
void bench_kernels() {
  const at::Tensor wide = at::rand({kBatch, 512});
  const cohort::Tensor our_wide(wide);
  run({.name = "dropout of 128 x 512",
       .ours = [&] { cohort::nn::dropout(our_wide, {.rate = 0.5}); },
       .theirs = [&] { at::dropout(wide, 0.5, true); },
       .calls = 200,
       .limit = 1 / 1.1});
  const at::Tensor logits = at::rand({kBatch, 10});
  const at::Tensor their_logits = logits.clone().requires_grad_();
  const at::Tensor labels = torch::randint(10, {kBatch}, torch::kLong);
  const cohort::Tensor our_logits(logits);
  const cohort::Tensor our_labels(labels);
  run({.name = "softmax cross entropy of 128 x 10, gradient",
       .ours =
           [&] {
             cohort::GradientTape tape;
             tape.watch(our_logits);
             tape.gradient(cohort::nn::softmax_cross_entropy(our_logits, our_labels), our_logits);
           },
       .theirs =
           [&] {
             const at::Tensor loss = torch::nll_loss(torch::log_softmax(their_logits, 1), labels);
             torch::autograd::grad({loss}, {their_logits});
           },
       .calls = 500,
       .limit = 1 / 1.1});
  const at::Tensor rows = at::rand({kBatch, 1000});
  const cohort::Tensor our_rows(rows);
  run({.name = "top_k of 10 in 1,000, 128 rows",
       .ours = [&] { cohort::top_k(our_rows, 10); },
       .theirs = [&] { at::topk(rows, 10); },
       .calls = 20,
       .limit = 1.1});
}

}  // namespace

int main() {
  at::set_num_threads(1);
  torch::manual_seed(1);
  cohort::random::set_seed(1);
  std::printf("%-44s %13s %13s\n", "", "cohort", "torch");
  run(step_contest<TorchMlp>("MLP 784-512-512-10, batch 128, step", cohort::bench::mlp(),
                             torch::rand({kBatch, 784})));
  run(step_contest<TorchCnn>("LeNet on 28x28, batch 128, step", cohort::bench::lenet(),
                             torch::rand({kBatch, 1, 28, 28})));
  bench_kernels();

  const at::Tensor a = at::ones({4});
  const at::Tensor b = at::ones({4});
  const cohort::Tensor x(a);
  const cohort::Tensor y(b);
  run({.name = "add of 4 floats",
       .ours = [&] { cohort::add(x, y); },
       .theirs = [&] { at::add(a, b); },
       .calls = 20000,
       .limit = 1.3});
  // The tape is made anew each time, so that it does not grow: its making is part of the figure.
  run({.name = "8 adds of 4 floats under a tape",
       .ours =
           [&] {
             cohort::GradientTape tape;
             tape.watch(x);
             for (int i = 0; i < 8; ++i) cohort::add(x, y);
           },
       .theirs =
           [&] {
             for (int i = 0; i < 8; ++i) at::add(a, b);
           },
       .calls = 2500,
       .limit = 2.0});
}
