#pragma once

#include <memory>

#include "models.h"
#include "parts.h"

namespace cohort::bench {

// A network and the pictures it is trained with, a batch for each replica.
struct Task {
  std::string name;
  std::string short_name;
  nn::Sequential (*model)();
  Shape batch;
};

inline std::vector<Task> tasks() {
  return {{"MLP 784-512-512-10", "mlp", mlp, {128, 784}},
          {"LeNet on 28x28", "lenet", lenet, {128, 1, 28, 28}}};
}

// A model and what trains it on a strategy.
class Training {
 public:
  Training(std::unique_ptr<Strategy> strategy, const Task& task)
      : strategy_(std::move(strategy)),
        model_(strategy_->create([&] { return task.model(); })),
        optimizer_(strategy_->create([] { return optim::Sgd({.learning_rate = 0.01}); })),
        images_(strategy_->distribute_values_from_function(
            [&](ValueContext) { return random::uniform(task.batch); })),
        labels_(strategy_->distribute_values_from_function(
            [&](ValueContext) { return random::randint({task.batch[0]}, 0, 10); })) {}
  Training(const std::vector<std::string>& devices, const Task& task, GuardOptions guards = {})
      : Training(std::make_unique<MirroredStrategy>(devices, MirroredOptions{.guards = guards}),
                 task) {}

  void step() {
    const auto train = [&](const Tensor& images, const Tensor& labels) {
      GradientTape tape;
      const Tensor loss = nn::softmax_cross_entropy(model_(images), labels);
      optimizer_.apply_gradients(tape.gradient(loss, model_.variables()), model_.variables());
    };
    strategy_->run(train, images_, labels_);
  }
  Strategy& strategy() { return *strategy_; }

 private:
  std::unique_ptr<Strategy> strategy_;
  nn::Sequential model_;
  optim::Sgd optimizer_;
  PerReplica<Tensor> images_;
  PerReplica<Tensor> labels_;
};

}  // namespace cohort::bench
