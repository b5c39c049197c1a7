// Fashion-MNIST with parameter servers: one program for every role. A ps and a worker only serve;
// the chief says what they do. TF_CONFIG tells a process which task it is (see README.md).

#include <cohort/cohort.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

using namespace cohort;

namespace {

constexpr int kBatch = 128;
constexpr int kStepsPerEpoch = 400;  // of all workers together

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

Tensor pictures(const Tensor& bytes) { return reshape(cast(bytes, kFloat32), {-1, 784}) / 255.f; }

struct Model {
  nn::Sequential layers{nn::Dense(784, 128), nn::relu, nn::Dense(128, 10)};
  optim::Adam optimizer{{.learning_rate = 1e-3}};

  Tensor train(const Tensor& images, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = nn::softmax_cross_entropy(layers(pictures(images)), labels);
    optimizer.apply_gradients(tape.gradient(loss, layers.variables()), layers.variables());
    return loss;
  }
  Tensor count_right(const Tensor& images, const Tensor& labels) const {
    return sum(cast(equal(argmax(layers(pictures(images)), 1), labels), kInt64));
  }
};

// Every picture that nobody trained on is looked at once, by one worker.
double evaluate(ClusterCoordinator& coordinator, const Model& model, const data::Dataset& unseen) {
  const auto right =
      function([&](Tensor images, Tensor labels) { return model.count_right(images, labels); });
  std::vector<RemoteValue<Tensor>> counts;
  int64_t all = 0;
  for (const auto& [images, labels] : unseen.batch(1000)) {
    counts.push_back(coordinator.schedule(right, images, labels));
    all += labels.size();
  }
  int64_t sum = 0;
  for (const Tensor& count : coordinator.fetch(counts)) sum += count.to<int64_t>();
  return static_cast<double>(sum) / static_cast<double>(all);
}

void run_chief(const ClusterResolver& resolver, const std::string& directory) {
  ParameterServerStrategy strategy(resolver);
  const auto [train, unseen] = data::fashion_mnist();
  auto model = strategy.create([] { return std::make_unique<Model>(); });
  Checkpoint checkpoint({{"model", model->layers}, {"optimizer", model->optimizer}});
  CheckpointManager saved(checkpoint, directory, {.max_to_keep = 3});
  const auto restore = [&] {
    if (saved.latest_checkpoint()) checkpoint.restore(*saved.latest_checkpoint());
  };
  restore();
  ClusterCoordinator coordinator(strategy, {.restore = restore});

  const auto batches = coordinator.create_per_worker_dataset([&] {
    return strategy.distribute_datasets_from_function([&](const InputContext&) {
      return train.shuffle(60'000).repeat().batch(kBatch, {.drop_remainder = true}).prefetch(2);
    });
  });
  const auto iterator = batches.iterator();
  const auto step = function([&](Iterator it) {
    return strategy.run([&](Tensor images, Tensor labels) { return model->train(images, labels); },
                        it.next());
  });

  const int epochs = setting("EPOCHS", 3);
  const int64_t begun = model->optimizer.iterations().read_value().to<int64_t>() / kStepsPerEpoch;
  for (int64_t epoch = begun; epoch < epochs; ++epoch) {
    std::optional<RemoteValue<PerReplica<Tensor>>> last;
    for (int i = 0; i < kStepsPerEpoch; ++i) last = coordinator.schedule(step, iterator);
    coordinator.join();
    saved.save();
    std::printf("epoch %d  loss %.3f  accuracy %.3f\n", static_cast<int>(epoch) + 1,
                coordinator.fetch(*last).value().to<float>(),
                evaluate(coordinator, *model, unseen));
    std::fflush(stdout);
  }
  std::printf("%s", strategy.plan().to_string().c_str());
  coordinator.shutdown_cluster();
}

// Follows the checkpoints of the others, and takes no part in the training.
void run_evaluator(const std::string& directory) {
  const auto [train, unseen] = data::fashion_mnist();
  Model model;
  Checkpoint checkpoint({{"model", model.layers}, {"optimizer", model.optimizer}});
  const int64_t last = int64_t{setting("EPOCHS", 3)} * kStepsPerEpoch;
  std::string seen;
  while (model.optimizer.iterations().read_value().to<int64_t>() < last) {
    const std::optional<std::string> newest = latest_checkpoint(directory);
    if (!newest || *newest == seen) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    checkpoint.restore(seen = *newest);
    int64_t right = 0;
    for (const auto& [images, labels] : unseen.batch(1000)) {
      right += model.count_right(images, labels).to<int64_t>();
    }
    std::printf("step %ld  accuracy %.3f\n",
                model.optimizer.iterations().read_value().to<int64_t>(),
                static_cast<double>(right) / 10'000);
    std::fflush(stdout);
  }
}

void run(const std::string& directory) {
  const TFConfigClusterResolver resolver;
  const std::string type = resolver.task_type().value_or("");
  if (type == "worker" || type == "ps") {
    Server server(resolver.cluster_spec(),
                  {.job_name = type, .task_index = resolver.task_id().value_or(0)});
    server.join();
    return;
  }
  type == "evaluator" ? run_evaluator(directory) : run_chief(resolver, directory);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory =
      argc > 1 ? argv[1] : (std::filesystem::temp_directory_path() / "parameter_server").string();
  const Status status = capture_status([&] { run(directory); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
