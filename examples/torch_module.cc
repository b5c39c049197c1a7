// A LibTorch model under a strategy: torch's layers and autograd, two replicas in step.

#include <cohort/torch.h>  // first: torch's names would clash with `using namespace cohort`

#include <iostream>
using namespace cohort;

struct Net : torch::nn::Module {
  explicit Net(int64_t hidden)
      : in(register_module("in", torch::nn::Linear(2, hidden))),
        out(register_module("out", torch::nn::Linear(hidden, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::log_softmax(out(torch::tanh(in(x))), 1);
  }
  torch::nn::Linear in, out;
};

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto scope = strategy.scope();
  torch::manual_seed(1);
  TorchModule<Net> net{8};
  optim::Adam optimizer({.learning_rate = 0.05});

  // Exclusive or: what a single layer cannot learn.
  const Tensor corners({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}});
  const Tensor labels({int64_t{0}, int64_t{1}, int64_t{1}, int64_t{0}});
  const auto batches = data::from_tensor_slices(corners, labels).repeat(300).batch(4);

  auto step = [&](Tensor x, Tensor y) {
    torch::Tensor loss = torch::nll_loss(net->forward(x), y, {}, torch::Reduction::Sum) / 4;
    optimizer.minimize(loss, net);  // torch's autograd, our reduction
    return Tensor(loss.detach());
  };
  Tensor loss;
  for (auto batch : strategy.distribute_dataset(batches)) {
    loss = strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
  }
  std::cout << "learnt: " << (loss.to<float>() < 0.01f) << '\n';
  std::cout << "guesses: " << argmax(Tensor(net->forward(corners).detach()), 1) << '\n';
}
