// One training step, written once, under three strategies: on one device, on two with a copy of the
// model each, and on two with one copy in the middle. All learn the same.

#include <cohort/cohort.h>

#include <cmath>
#include <iostream>
#include <vector>
using namespace cohort;

// The loss of each step.
std::vector<double> train(Strategy& strategy) {
  auto scope = strategy.scope();
  random::set_seed(3);
  const Tensor images = random::uniform({512, 16});
  const Tensor labels = cast(sum(images, 1) > 8.f, kInt64);
  auto examples = data::from_tensor_slices(images, labels).repeat(20);

  nn::Sequential model{nn::Dense(16, 32), nn::relu, nn::Dense(32, 2)};
  optim::Sgd optimizer({.learning_rate = 0.5});
  auto step = [&](Tensor image, Tensor label) {
    GradientTape tape;
    Tensor loss = nn::softmax_cross_entropy(model(image), label, {.global_batch_size = 256});
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    return loss;
  };
  std::vector<double> losses;
  for (auto batch : strategy.distribute_dataset(examples.batch(256))) {
    losses.push_back(strategy.reduce(ReduceOp::Sum, strategy.run(step, batch)).to<double>());
  }
  return losses;
}

bool agree(const std::vector<double>& some, const std::vector<double>& others) {
  for (size_t i = 0; i < some.size(); ++i) {
    if (std::abs(some[i] - others[i]) > 1e-5 * others[i]) return false;
  }
  return some.size() == others.size();
}

int main() {
  OneDeviceStrategy one("CPU:0");
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});

  const std::vector<double> expected = train(one);
  std::cout << expected.size() << " steps; the loss fell: " << (expected.back() < expected[0])
            << '\n';
  std::cout << "mirrored agrees: " << agree(train(mirrored), expected) << '\n';
  std::cout << "central storage agrees: " << agree(train(central), expected) << '\n';
}
