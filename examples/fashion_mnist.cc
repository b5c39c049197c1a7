// Learns to tell ten kinds of clothes apart: a small network, trained on the 60,000 pictures of
// Fashion-MNIST by two replicas at the same time, tested on 10,000 others. Then the same on one
// device, to see what the second one was good for.
//
//   fashion_mnist [--epochs N] [--batch N] [--replicas N] [--data DIR]

#include <cohort/cohort.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
using namespace cohort;

constexpr std::array kNames = {"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                               "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

struct Options {
  int epochs = 8;
  int batch = 512;  // of all replicas together
  int replicas = 2;
  std::string data = "/usr/share/datasets/fashion-mnist";
};

int parse_number(const std::string& option, const std::string& text, int most) {
  int number = 0;
  const char* end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  if (*end == '\0' && number >= 1 && number <= most) return number;
  throw Error(Code::InvalidArgument,
              option + " takes 1 to " + std::to_string(most) + ", not '" + text + "'");
}

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& name = words[i];
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (name == "--epochs") {
      options.epochs = parse_number(name, value, 1000);
    } else if (name == "--batch") {
      options.batch = parse_number(name, value, 60'000);
    } else if (name == "--replicas") {
      options.replicas = parse_number(name, value, 64);
    } else if (name == "--data" && !value.empty()) {
      options.data = value;
    } else {
      throw Error(Code::InvalidArgument,
                  name + ": use --epochs N, --batch N, --replicas N or --data DIR");
    }
  }
  return options;
}

// Seconds since it was made or asked last.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> time = now - std::exchange(last_, now);
    return time.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Where the time of the steps went, as replica 0 sees it.
struct Parts {
  double input = 0, gradients = 0, update = 0;
  double total() const { return input + gradients + update; }
};

// Pictures of 28 x 28 bytes, and which of the ten each of them shows.
struct Examples {
  Examples(const std::string& folder, const std::string& name)
      : images(reshape(data::read_idx(folder + "/" + name + "-images-idx3-ubyte.gz"), {-1, 784})),
        labels(data::read_idx(folder + "/" + name + "-labels-idx1-ubyte.gz")) {}
  int64_t size() const { return images.shape()[0]; }
  Tensor images, labels;
};

Tensor to_input(const Tensor& images) { return cast(images, kFloat32) / 255; }

// A model, its optimizer, and the step that every replica runs; made inside a strategy's scope.
class Training {
 public:
  Training(Strategy& strategy, const Options& options) : strategy_(strategy), options_(options) {}

  // Returns the time that its steps took.
  Parts epoch(const Examples& examples, const std::string& title) {
    double loss = 0;  // of the batches so far, added up
    int64_t steps = 0;
    Parts parts;
    Stopwatch clock;
    int64_t done = 0;
    const auto batches = data::from_tensor_slices(examples.images, examples.labels)
                             .shuffle(10'000)
                             .batch(options_.batch);
    for (const auto& batch : strategy_.distribute_dataset(batches)) {
      parts.input += clock.lap();
      loss += strategy_.reduce(ReduceOp::Sum, strategy_.run(step_, batch, &parts)).to<double>();
      ++steps;
      clock.lap();
      done += batch.global_sample_count();
      show_progress(title, double(done) / double(examples.size()), loss / double(steps),
                    double(done) / parts.total(), parts);
    }
    return parts;
  }

  void print_table(const Examples& examples) const;
  int64_t steps() const { return optimizer_.iterations().read_value().to<int64_t>(); }

 private:
  // A line that is rewritten in place on a terminal; elsewhere a line for every quarter.
  void show_progress(const std::string& title, double done, double loss, double examples_per_second,
                     const Parts& parts) {
    const bool terminal = isatty(STDOUT_FILENO);
    const int quarter = static_cast<int>(4 * done);
    if (!terminal && (std::exchange(quarter_, quarter) == quarter || quarter == 0)) return;
    const std::string bar(static_cast<size_t>(20 * done), '=');
    std::printf(
        "%s%s [%-20s]  step %5ld  loss %.3f  %6.0f examples/s  input %2.0f %%  gradients "
        "%2.0f %%  update %2.0f %%%s",
        terminal ? "\r" : "", title.c_str(), bar.c_str(), steps(), loss, examples_per_second,
        100 * parts.input / parts.total(), 100 * parts.gradients / parts.total(),
        100 * parts.update / parts.total(), terminal && done < 1 ? "" : "\n");
    std::fflush(stdout);
  }

  Strategy& strategy_;
  const Options& options_;
  int quarter_ = 0;  // of the epoch, that was shown last
  nn::Sequential model_{nn::Dense(784, 256), nn::relu, nn::Dense(256, 10)};
  optim::Adam optimizer_{{.learning_rate = 1e-3}};
  std::function<Tensor(Tensor, Tensor, Parts*)> step_ = [this](Tensor images, Tensor labels,
                                                               Parts* parts) {
    const bool first = get_replica_context()->replica_id_in_sync_group() == 0;
    Stopwatch clock;
    GradientTape tape;
    const Tensor loss = nn::softmax_cross_entropy(model_(to_input(images)), labels,
                                                  {.global_batch_size = options_.batch});
    const Gradients gradients = tape.gradient(loss, model_.variables());
    if (first) parts->gradients += clock.lap();
    optimizer_.apply_gradients(gradients, model_.variables());
    if (first) parts->update += clock.lap();
    return loss;
  };
};

void Training::print_table(const Examples& examples) const {
  const Tensor guesses = argmax(model_(to_input(examples.images)), 1);
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
  Training model(strategy, options);
  double rate = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const Parts parts = model.epoch(training, "epoch " + std::to_string(epoch));
    rate = std::max(rate, static_cast<double>(training.size()) / parts.total());
  }
  if (unseen) model.print_table(*unseen);
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
