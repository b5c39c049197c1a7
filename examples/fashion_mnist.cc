// Learns to tell ten kinds of clothes apart: a small network, trained on the 60,000 pictures of
// Fashion-MNIST by two replicas at the same time, tested on 10,000 others. Then the same on one
// device, to see what the second one was good for.
//
//   fashion_mnist [--epochs N] [--batch N] [--replicas N] [--data DIR]

#include "fashion_mnist.h"

#include <algorithm>
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

// Returns examples per second, of the fastest epoch: others may have used the machine meanwhile.
double train(Strategy& strategy, const Options& options, int epochs, const Examples& training,
             const Examples* unseen) {
  const auto scope = strategy.scope();
  random::set_seed(1);
  nn::Sequential model{nn::Dense(784, 256), nn::relu, nn::Dense(256, 10)};
  optim::Adam optimizer({.learning_rate = 1e-3});
  Trainer trainer(model, nn::softmax_cross_entropy, optimizer, {.input = to_input});
  double rate = 0;
  const auto keep_rate = std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_epoch_end = [&](Trainer& done, const Logs&) {
        const TrainingProgress& progress = done.progress();
        rate = std::max(rate, static_cast<double>(progress.examples) / progress.times.total());
      }});
  trainer.fit(training.batches(options.batch, 10'000),
              {.epochs = epochs, .callbacks = {keep_rate}});
  if (unseen) print_table(trainer, *unseen);
  return rate;
}

int main(int argc, char** argv) try {
  const Options options = parse_options({argv + 1, argv + argc});
  const Examples training(options.data, "train"), unseen(options.data, "t10k");

  MirroredStrategy strategy(devices(options.replicas));
  std::printf("%d replicas, batches of %d\n", strategy.num_replicas_in_sync(), options.batch);
  const double rate = train(strategy, options, options.epochs, training, &unseen);

  std::printf("\nThe same on one of the devices, for comparison\n");
  OneDeviceStrategy one("CPU:0");
  const double rate_of_one = train(one, options, std::min(options.epochs, 3), training, nullptr);
  std::printf("\n%d replicas are %.2f times as fast as one: %.0f examples per second over %.0f.\n",
              options.replicas, rate / rate_of_one, rate, rate_of_one);
} catch (const Error& error) {
  const bool no_data = error.code() == Code::NotFound;
  std::fprintf(stderr, "fashion_mnist: %s%s\n", error.message().c_str(),
               no_data ? "; Debian's package dataset-fashion-mnist has the files" : "");
  return 1;
}
