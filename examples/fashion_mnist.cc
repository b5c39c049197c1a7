// Learns to tell ten kinds of clothes apart: a small network, trained on the 60,000 pictures of
// Fashion-MNIST and tested on 10,000 others.
//
//   fashion_mnist [--epochs N] [--batch N] [--data DIR]

#include <cohort/cohort.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
using namespace cohort;

constexpr std::array kNames = {"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                               "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

struct Options {
  int epochs = 8;
  int batch = 128;
  std::string data = "/usr/share/datasets/fashion-mnist";
};

int parse_number(const std::string& option, const std::string& text) {
  int number = 0;
  const char* end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  if (*end == '\0' && number >= 1 && number <= 60'000) return number;
  throw Error(Code::InvalidArgument, option + " takes 1 to 60000, not '" + text + "'");
}

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& name = words[i];
    if ((name != "--epochs" && name != "--batch" && name != "--data") || i + 1 == words.size()) {
      throw Error(Code::InvalidArgument, name + ": use --epochs N, --batch N or --data DIR");
    }
    if (name == "--epochs") options.epochs = parse_number(name, words[i + 1]);
    if (name == "--batch") options.batch = parse_number(name, words[i + 1]);
    if (name == "--data") options.data = words[i + 1];
  }
  return options;
}

// Pictures of 28 x 28 bytes, and which of the ten each of them shows.
struct Examples {
  Examples(const std::string& folder, const std::string& name)
      : images(reshape(data::read_idx(folder + "/" + name + "-images-idx3-ubyte.gz"), {-1, 784})),
        labels(data::read_idx(folder + "/" + name + "-labels-idx1-ubyte.gz")) {}
  Tensor images, labels;
};

Tensor to_input(const Tensor& images) { return cast(images, kFloat32) / 255; }

// A line that is rewritten in place on a terminal, and written once, when all is done, elsewhere.
void show_progress(const std::string& title, double done, const metrics::Mean& loss,
                   const metrics::Mean& accuracy, double examples_per_second) {
  const bool terminal = isatty(STDOUT_FILENO);
  if (!terminal && done < 1) return;
  const std::string bar(static_cast<size_t>(24 * done), '=');
  std::printf("%s%s [%-24s]  loss %.3f  accuracy %4.1f %%  %6.0f examples/s%s",
              terminal ? "\r" : "", title.c_str(), bar.c_str(), loss.result().to<double>(),
              100 * accuracy.result().to<double>(), examples_per_second, done < 1 ? "" : "\n");
  std::fflush(stdout);
}

void train_epoch(nn::Sequential& model, optim::Optimizer& optimizer, const Examples& examples,
                 int64_t batch_size, const std::string& title) {
  metrics::Mean mean_loss;
  metrics::SparseCategoricalAccuracy accuracy;
  const int64_t count = examples.images.shape()[0];
  const Tensor order = random::shuffle(range(count));
  const auto start = std::chrono::steady_clock::now();
  for (int64_t begin = 0; begin < count; begin += batch_size) {
    const Tensor batch = slice(order, {{begin, begin + batch_size}});
    const Tensor images = to_input(gather(examples.images, batch));
    const Tensor labels = gather(examples.labels, batch);

    GradientTape tape;
    const Tensor scores = model(images);
    const Tensor loss = nn::softmax_cross_entropy(scores, labels);
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());

    mean_loss.update(loss);
    accuracy.update(labels, scores);
    const double done = std::min(begin + batch_size, count);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    show_progress(title, done / count, mean_loss, accuracy, done / time.count());
  }
}

void print_table(const nn::Sequential& model, const Examples& examples) {
  const Tensor guesses = argmax(model(to_input(examples.images)), 1);
  const Tensor right = cast(equal(guesses, examples.labels), kFloat64);
  std::printf("\nOf %ld pictures that it had never seen, it recognised\n", right.size());
  for (size_t i = 0; i < kNames.size(); ++i) {
    metrics::Mean share;
    share.update(right, cast(equal(examples.labels, static_cast<int>(i)), kFloat64));
    std::printf("  %-12s %5.1f %%\n", kNames[i], 100 * share.result().to<double>());
  }
  std::printf("  %-12s %5.1f %%\n", "all", 100 * mean(right).to<double>());
}

int main(int argc, char** argv) try {
  const Options options = parse_options({argv + 1, argv + argc});
  const Examples training(options.data, "train"), unseen(options.data, "t10k");
  random::set_seed(1);
  nn::Sequential model{nn::Dense(784, 128), nn::relu, nn::Dense(128, 10)};
  optim::Adam optimizer({.learning_rate = 1e-3});
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    train_epoch(model, optimizer, training, options.batch, "epoch " + std::to_string(epoch));
  }
  print_table(model, unseen);
} catch (const Error& error) {
  const bool no_data = error.code() == Code::NotFound;
  std::fprintf(stderr, "fashion_mnist: %s%s\n", error.message().c_str(),
               no_data ? "; Debian's package dataset-fashion-mnist has the files" : "");
  return 1;
}
