#include <cohort/cohort.h>
#include <cohort/collective.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "launch/parts.h"
#include "models.h"
#include "train_as_told.h"

namespace cohort::bench {
namespace {

constexpr int64_t kBatch = 128;    // of each worker
constexpr int64_t kBatches = 20;   // that are used in turn
constexpr int64_t kMany = 100000;  // times; not without end, so that workers agree on every step

// A training as people write it: several workers, each with a dataset of its own.
class Training {
 public:
  void step() { strategy_.run(train_, input_.next()); }
  Communicator workers() const { return strategy_.communicator(); }

 private:
  static data::Dataset examples(const InputContext&) {
    return data::from_tensor_slices(random::uniform({kBatch * kBatches, 784}),
                                    random::randint({kBatch * kBatches}, 0, 10))
        .batch(kBatch)
        .repeat(kMany);
  }

  MultiWorkerMirroredStrategy strategy_;
  nn::Sequential model_ = strategy_.create([] { return mlp(); });
  optim::Sgd optimizer_ = strategy_.create([] { return optim::Sgd({.learning_rate = 0.01}); });
  DistributedIterator input_ =
      strategy_.distribute_datasets_from_function(&Training::examples).iterator();
  std::function<void(const Tensor&, const Tensor&)> train_ = [this](const Tensor& images,
                                                                    const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = nn::softmax_cross_entropy(model_(images), labels);
    optimizer_.apply_gradients(tape.gradient(loss, model_.variables()), model_.variables());
  };
};

}  // namespace

void be_task(const std::string& directory) {
  Training training;
  training.step();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("first step at %lld\n",
              static_cast<long long>(std::chrono::nanoseconds(now).count()));
  std::fflush(stdout);
  if (directory.empty()) return;
  const Communicator workers = training.workers();
  std::ifstream orders;
  std::ofstream times;
  if (workers.rank() == 0) {
    orders.open(directory + "/orders");
    times.open(directory + "/times");
  }
  train_as_told(workers, orders, times, [&] { training.step(); });
}

}  // namespace cohort::bench
