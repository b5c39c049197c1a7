// A task that makes five training steps of one kind: steps_task KIND [DIRECTORY].
//
//   alone        a tape and an optimizer, without a strategy
//   iterator     a traced function that takes its batches from an iterator, without a strategy
//   mirrored     two replicas
//   traced       two replicas, the whole step traced
//   inside       two replicas, each of which calls a traced function
//   torch        two replicas of a torch module, with optimizers of Cohort and of torch in turn
//   torch_alone  the same without a strategy
//   trainer      Trainer::fit, with a backup in DIRECTORY

#include <cohort/cohort.h>
#include <cohort/torch.h>  // first: torch's names would clash with `using namespace cohort`

#include <string>

using namespace cohort;

namespace {

constexpr int kSteps = 5;

data::Dataset batches() {
  const Tensor x = reshape(cast(range(4 * kSteps), kFloat32), {4 * kSteps, 1}) / 20.f;
  return data::from_tensor_slices(x, 2.f * x + 1.f).batch(4);
}

// A model with what makes one step of its training.
struct Training {
  nn::Dense model{1, 1};
  optim::Sgd optimizer{{.learning_rate = 0.1}};

  Tensor step(const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = mean(square(model(x) - y));
    const std::vector<Variable> variables = model.variables();
    optimizer.apply_gradients(tape.gradient(loss, variables), variables);
    return loss;
  }
};

void train_alone() {
  Training training;
  for (const data::Element& batch : batches()) training.step(batch[0], batch[1]);
}

void train_with_iterator() {
  Training training;
  const auto step = function([&](data::Iterator input) {
    const data::Element batch = input.next();
    return training.step(batch[0], batch[1]);
  });
  const data::Iterator input = batches().iterator();
  for (int i = 0; i < kSteps; ++i) step(input);
}

void train_mirrored(const std::string& kind) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  Training training;
  const auto step = [&](const Tensor& x, const Tensor& y) { return training.step(x, y); };
  const auto traced_step = function(step);
  const auto all = function([&](const DistributedElement& batch) { strategy.run(step, batch); });
  for (const auto& batch : strategy.distribute_dataset(batches())) {
    if (kind == "mirrored") strategy.run(step, batch);
    if (kind == "traced") all(batch);
    if (kind == "inside") {
      strategy.run([&](const Tensor& x, const Tensor& y) { return traced_step(x, y); }, batch);
    }
  }
}

void train_torch() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  TorchModule<torch::nn::LinearImpl> net(1, 1);
  optim::Sgd sgd({.learning_rate = 0.1});
  TorchOptimizer<torch::optim::SGD> torch_sgd(net, torch::optim::SGDOptions(0.1));
  int steps = 0;
  for (const auto& batch : strategy.distribute_dataset(batches())) {
    const bool torchs = ++steps % 2 == 0;
    strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          const at::Tensor loss = torch::mse_loss(net->forward(at::Tensor(x)), at::Tensor(y));
          torchs ? torch_sgd.minimize(loss, net) : sgd.minimize(loss, net);
        },
        batch);
  }
}

void train_torch_alone() {
  TorchModule<torch::nn::LinearImpl> net(1, 1);
  optim::Sgd sgd({.learning_rate = 0.1});
  TorchOptimizer<torch::optim::SGD> torch_sgd(net, torch::optim::SGDOptions(0.1));
  net->train();
  int steps = 0;
  for (const data::Element& batch : batches()) {
    const Tensor x = batch[0], y = batch[1];
    const at::Tensor loss = torch::mse_loss(net->forward(at::Tensor(x)), at::Tensor(y));
    ++steps % 2 == 0 ? torch_sgd.minimize(loss, net) : sgd.minimize(loss, net);
  }
}

void train_with_trainer(const std::string& directory) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  Training training;
  Trainer trainer(training.model, nn::mean_squared_error, training.optimizer);
  trainer.fit(batches(), {.backup = directory, .progress = false});
}

}  // namespace

int main(int, char** argv) {
  const std::string kind = argv[1];
  if (kind == "alone") {
    train_alone();
  } else if (kind == "iterator") {
    train_with_iterator();
  } else if (kind == "torch") {
    train_torch();
  } else if (kind == "torch_alone") {
    train_torch_alone();
  } else if (kind == "trainer") {
    train_with_trainer(argv[2]);
  } else {
    train_mirrored(kind);
  }
}
