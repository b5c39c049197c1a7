// Data parallelism on one machine: every device trains its own copy of the model on its part of the
// batch, and the copies stay equal. The step is what one would write for one device.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto scope = strategy.scope();
  random::set_seed(1);

  // y = 3 a - 2 b + 1, in batches of 64 for all replicas together.
  const Tensor inputs = random::normal({512, 2});
  const Tensor targets = matmul(inputs, Tensor({{3.f}, {-2.f}})) + 1.f;
  const auto batches = data::from_tensor_slices(inputs, targets).repeat(25).batch(64);

  nn::Sequential model{nn::Dense(2, 1)};
  optim::Sgd optimizer({.learning_rate = 0.1});
  auto step = [&](Tensor x, Tensor y) {
    GradientTape tape;
    // Gradients are summed over the replicas, so the loss is a share of the global batch's mean.
    Tensor loss = sum(square(model(x) - y)) / 64.f;
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    return loss;
  };

  Tensor loss;
  for (auto batch : strategy.distribute_dataset(batches)) {
    loss = strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
  }
  std::cout << "replicas: " << strategy.num_replicas_in_sync() << '\n';
  std::cout << "the loss is below 1e-6: " << (loss.to<float>() < 1e-6f) << '\n';
  std::cout << "weights: " << round(model.variables()[0] * 1000.f) / 1000.f << '\n';
}
