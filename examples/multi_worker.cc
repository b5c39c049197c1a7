// Data parallelism over several processes or machines: each runs this program, and all train one
// model. Start one for each worker, with its own index:
//
//   TF_CONFIG='{"cluster": {"worker": ["localhost:5001", "localhost:5002"]},
//               "task": {"type": "worker", "index": 0}}' multi_worker
//
// Without TF_CONFIG it is one worker. The step is what one would write for one device.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

constexpr int64_t kBatch = 256;  // of all workers together

Tensor as_input(const Tensor& images) { return reshape(cast(images, kFloat32), {-1, 784}) / 255.f; }

double accuracy(const nn::Sequential& model, const data::Dataset& examples) {
  double right = 0;
  double all = 0;
  for (const auto& [images, labels] : examples.batch(1000)) {
    right += sum(cast(equal(argmax(model(as_input(images)), 1), labels), kFloat64)).to<double>();
    all += static_cast<double>(labels.size());
  }
  return right / all;
}

int main() {
  try {
    MultiWorkerMirroredStrategy strategy;  // waits until all workers are there
    auto scope = strategy.scope();
    const auto [train, unseen] = data::fashion_mnist();

    // All workers begin with the chief's values.
    nn::Sequential model{nn::Dense(784, 128), nn::relu, nn::Dense(128, 10)};
    optim::Sgd optimizer({.learning_rate = 0.2});
    auto step = [&](Tensor images, Tensor labels) {
      GradientTape tape;
      Tensor loss =
          nn::softmax_cross_entropy(model(as_input(images)), labels, {.global_batch_size = kBatch});
      optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
      return loss;
    };

    // Each worker keeps its share of every batch.
    const auto batches = train.shuffle(60'000, {.seed = 1})
                             .batch(kBatch)
                             .options({.auto_shard_policy = data::AutoShardPolicy::Data});
    Tensor loss;
    for (auto batch : strategy.distribute_dataset(batches)) {
      loss = strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
    }
    if (strategy.is_chief()) {
      std::cout << strategy.num_workers() << " workers, " << strategy.num_replicas_in_sync()
                << " replicas, accuracy " << accuracy(model, unseen) << '\n';
    }
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
