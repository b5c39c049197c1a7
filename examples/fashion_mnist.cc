// Learns to tell ten kinds of clothes apart: a small network, trained on the 60,000 pictures of
// Fashion-MNIST by two replicas at the same time, tested on 10,000 others. Then some epochs on two
// devices and on one in turn, to see what the second one was good for.
//
//   fashion_mnist [--epochs N] [--batch N] [--replicas N] [--data DIR]

#include "fashion_mnist.h"

#include <chrono>
#include <cstdio>
using namespace fashion;

Tensor to_input(const Tensor& images) { return cast(images, kFloat32) / 255; }

void print_table(Trainer& trainer, const Examples& examples) {
  const Tensor guesses = argmax(trainer.predict(examples.batches(1000)), 1);
  const Tensor right = cast(equal(guesses, examples.labels), kFloat64);
  std::printf("\nOf %ld pictures that it had never seen, it recognised\n", right.size());
  for (size_t i = 0; i < kNames.size(); ++i) {
    const Tensor of_this = cast(equal(examples.labels, static_cast<int>(i)), kFloat64);
    const Tensor share = sum(right * of_this) / sum(of_this);
    std::printf("  %-12s %5.1f %%\n", kNames[i], 100 * share.to<double>());
  }
  std::printf("  %-12s %5.1f %%\n", "all", 100 * mean(right).to<double>());
}

std::vector<std::string> devices(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("CPU:" + std::to_string(i));
  return names;
}

// A network and what trains it under one strategy.
class Training {
 public:
  Training(Strategy& strategy, const Options& options)
      : scope_(strategy.scope()), batch_(options.batch) {}

  // Returns examples per second.
  double run(const Examples& training, const FitOptions& how) {
    trainer_.fit(training.batches(batch_, 10'000), how);
    const TrainingProgress& last = trainer_.progress();
    return static_cast<double>(last.examples) /
           std::chrono::duration<double>(last.times.total()).count();
  }
  Trainer& trainer() { return trainer_; }

 private:
  StrategyScope scope_;
  const int batch_;
  nn::Sequential model_{nn::Dense(784, 256), nn::relu, nn::Dense(256, 10)};
  optim::Adam optimizer_{{.learning_rate = 1e-3}};
  Trainer trainer_{model_, nn::softmax_cross_entropy, optimizer_, {.input = to_input}};
};

// An epoch of each in turn, so that what else the machine does meets both.
std::string compare(const Options& options, const Examples& training) {
  MirroredStrategy all(devices(options.replicas));
  OneDeviceStrategy one("CPU:0");
  Rates rates;
  for (int round = 0; round < 3; ++round) {
    rates.all.push_back(Training(all, options).run(training, {.progress = false}));
    rates.one.push_back(Training(one, options).run(training, {.progress = false}));
  }
  return describe(rates, options.replicas);
}

int main(int argc, char** argv) try {
  const Options options = parse_options({argv + 1, argv + argc});
  const Examples training(options.data, "train"), unseen(options.data, "t10k");
  random::set_seed(1);

  MirroredStrategy strategy(devices(options.replicas));
  std::printf("%d replicas, batches of %d\n", strategy.num_replicas_in_sync(), options.batch);
  {
    Training training_on_all(strategy, options);
    training_on_all.run(training, {.epochs = options.epochs});
    print_table(training_on_all.trainer(), unseen);
  }
  std::printf("\nThree epochs each with %d replicas and with one, in turn, for comparison\n",
              options.replicas);
  std::printf("%s\n", compare(options, training).c_str());
} catch (const Error& error) {
  const bool no_data = error.code() == Code::NotFound;
  std::fprintf(stderr, "fashion_mnist: %s%s\n", error.message().c_str(),
               no_data ? "; Debian's package dataset-fashion-mnist has the files" : "");
  return 1;
}
