// A worker of a MultiWorkerMirroredStrategy, as a process; the environment says its place.
//
//   worker endless           trains until something goes wrong, and says what
//   worker backup DIRECTORY N EPOCHS   makes N steps in each epoch with a backup every 5, and
//   prints
//                                      the result
//   worker eager N, worker traced N   makes N steps, as they are or in a function around run(), and
//                                     prints the losses and the result
//   worker alone             makes strategies of one process
//   worker trainer           makes a Trainer without a strategy
//   worker tf_config         makes a strategy that looks at TF_CONFIG only

#include <cohort/cohort.h>
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <thread>

namespace {

using namespace cohort;

// A model that learns y = 3 a - 2 b + 1, with everything that has a state: momentum, dropout.
struct Training {
  explicit Training(MultiWorkerMirroredStrategy& with) : strategy(with) {}

  Tensor step(const DistributedElement& batch) {
    const auto losses = strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          GradientTape tape;
          const Tensor loss = sum(square(model(x * noise()) - y)) / 16.f;
          optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
          return loss;
        },
        batch);
    return strategy.reduce(ReduceOp::Sum, losses);
  }

  Tensor noise() const {
    return is_noisy ? random::uniform({2}, {.low = 0.9, .high = 1.1}) : ones({2});
  }

  void print() const {
    for (const Variable& variable : model.variables()) {
      std::printf(" %.9g", sum(variable.read_value()).to<double>());
    }
    std::puts("");
  }

  MultiWorkerMirroredStrategy& strategy;
  bool is_noisy = true;
  nn::Sequential model{nn::Dense(2, 8), nn::relu, nn::Dense(8, 1)};
  optim::Adam optimizer{{.learning_rate = 0.01}};
};

data::Dataset batches(int64_t steps) {
  const Tensor inputs = random::normal({64, 2});
  const Tensor targets = matmul(inputs, Tensor({{3.f}, {-2.f}})) + 1.f;
  return data::from_tensor_slices(inputs, targets)
      .shuffle(64, {.seed = 7})
      .repeat()
      .batch(16, {.drop_remainder = true})
      .take(steps)
      .options({.auto_shard_policy = data::AutoShardPolicy::Data});
}

void train_for_ever(MultiWorkerMirroredStrategy& strategy) {
  const auto scope = strategy.scope();
  Training training(strategy);
  int64_t steps = 0;
  for (const auto& batch : strategy.distribute_dataset(batches(1'000'000'000))) {
    training.step(batch);
    if (++steps != 20) continue;
    std::cout << "trains" << std::endl;
  }
}

void train_with_backups(MultiWorkerMirroredStrategy& strategy, const std::string& directory,
                        int64_t steps, int epochs) {
  const auto scope = strategy.scope();
  const auto data = strategy.distribute_dataset(batches(steps));
  Training training(strategy);
  BackupAndRestore backup(strategy, {{"model", training.model}, {"optimizer", training.optimizer}},
                          {.directory = directory, .every_steps = 5});
  int64_t made = 0;
  const auto step = [&](const DistributedElement& batch) {
    training.step(batch);
    if (++made % 10 == 0) std::cout << "made " << made << std::endl;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  for (int epoch = 0; epoch < epochs; ++epoch) {
    // The workers meet between the epochs. Outside run(), none of them may be lost.
    if (backup.run(data, step).new_steps > 0) strategy.reduce(ReduceOp::Sum, Tensor(1.f));
  }
  const BackupReport report = backup.report();
  std::printf("steps %lld recoveries %lld lost %lld result", static_cast<long long>(report.steps),
              static_cast<long long>(report.recoveries), static_cast<long long>(report.lost_steps));
  training.print();
}

void train_with_or_without_function(MultiWorkerMirroredStrategy& strategy, bool traced,
                                    int64_t steps) {
  const auto scope = strategy.scope();
  Training training(strategy);
  training.is_noisy = false;
  const auto step = function([&](const DistributedElement& batch) { return training.step(batch); });
  std::printf("result");
  for (const auto& batch : strategy.distribute_dataset(batches(steps))) {
    std::printf(" %.6g", (traced ? step(batch) : training.step(batch)).to<double>());
  }
  training.print();
}

void make_strategies_of_one_process() {
  const MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  const MirroredStrategy again({"CPU:0"});
  const OneDeviceStrategy one("CPU:0");
  const CentralStorageStrategy central;
}

void make_strategy_by_tf_config() {
  const MultiWorkerMirroredStrategy strategy(std::make_shared<TFConfigClusterResolver>());
}

void make_trainer() {
  const nn::Sequential model{nn::Dense(2, 2)};
  optim::Sgd optimizer;
  const Trainer trainer(model, nn::softmax_cross_entropy, optimizer);
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than the test
  const std::vector<std::string> words(argv + 1, argv + argc);
  const cohort::Status status = cohort::capture_status([&] {
    if (words.at(0) == "alone") return make_strategies_of_one_process();
    if (words.at(0) == "trainer") return make_trainer();
    if (words.at(0) == "tf_config") return make_strategy_by_tf_config();
    cohort::random::set_seed(11);
    cohort::MultiWorkerMirroredStrategy strategy(cohort::MultiWorkerOptions{
        .start_timeout = std::chrono::seconds(30), .silence_limit = std::chrono::seconds(3)});
    if (words.at(0) == "endless") return train_for_ever(strategy);
    if (words.at(0) != "backup") {
      return train_with_or_without_function(strategy, words.at(0) == "traced",
                                            std::stoll(words.at(1)));
    }
    train_with_backups(strategy, words.at(1), std::stoll(words.at(2)), std::stoi(words.at(3)));
  });
  if (!status.ok()) std::cout << "failed: " << status.to_string() << std::endl;
  return status.ok() ? 0 : 1;
}
