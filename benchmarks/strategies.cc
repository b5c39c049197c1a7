// Strategies in one process: all-reduces beside the least that any program would have to do
// (threads that add up their slices of the same vectors into one buffer), what single calls cost,
// and training on two devices beside one.

#include <cohort/torch.h>

#include <atomic>
#include <thread>

#include "ratio.h"

namespace {

using namespace cohort;  // NOLINT: a program

std::vector<std::string> cpus(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("CPU:" + std::to_string(i));
  return names;
}

// As many threads as vectors, one of them the caller, that meet before and after each addition.
class PlainAdder {
 public:
  PlainAdder(size_t vectors, int64_t size)
      : parts_(vectors), crowded_(vectors > std::thread::hardware_concurrency()) {
    for (size_t i = 0; i < vectors; ++i) sources_.emplace_back(static_cast<size_t>(size), i + 1.f);
    total_.resize(static_cast<size_t>(size));
    for (size_t part = 1; part < parts_; ++part)
      threads_.emplace_back([this, part] { work(part); });
  }
  ~PlainAdder() {
    order(0);
    for (std::thread& thread : threads_) thread.join();
  }

  void run(int times) {
    order(times);
    add_repeatedly(0, times);
  }

 private:
  void order(int times) {
    times_ = times;
    orders_.fetch_add(1);
    orders_.notify_all();
  }

  void work(size_t part) {
    for (unsigned seen = 0;;) {
      orders_.wait(seen);
      seen = orders_.load();
      if (times_ == 0) return;
      add_repeatedly(part, times_);
    }
  }

  void add_repeatedly(size_t part, int times) {
    for (int i = 0; i < times; ++i) {
      meet();
      add(part);
      meet();
    }
  }

  void meet() {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) {
      if (crowded_) std::this_thread::yield();
    }
  }

  void add(size_t part) {
    const size_t begin = total_.size() * part / parts_;
    const size_t end = total_.size() * (part + 1) / parts_;
    const float* a = sources_[0].data();
    const float* b = sources_[1].data();
    float* sum = total_.data();
    if (sources_.size() == 2) {
#pragma GCC ivdep
      for (size_t i = begin; i < end; ++i) sum[i] = a[i] + b[i];
    } else {
      const float* c = sources_[2].data();
      const float* d = sources_[3].data();
#pragma GCC ivdep
      for (size_t i = begin; i < end; ++i) sum[i] = ((a[i] + b[i]) + c[i]) + d[i];
    }
  }

  const size_t parts_;
  const bool crowded_;
  std::vector<std::vector<float>> sources_;
  std::vector<float> total_;
  std::atomic<unsigned> orders_{0};
  std::atomic<int> times_{0};
  alignas(64) std::atomic<size_t> arrived_{0};
  alignas(64) std::atomic<unsigned> round_{0};
  std::vector<std::thread> threads_;
};

std::string size_name(int64_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KB"
                         : std::to_string(bytes >> 20) + " MB";
}

void bench_all_reduce(size_t replicas, int64_t bytes) {
  MirroredStrategy strategy(cpus(replicas));
  const int64_t size = bytes / 4;
  PlainAdder plain(replicas, size);
  const auto values = strategy.distribute_values_from_function(
      [&](ValueContext context) { return fill({size}, context.replica_id_in_sync_group + 1.f); });
  const int times = static_cast<int>(std::clamp<int64_t>((8 << 20) / bytes, 4, 500));
  const auto all_reduce = [times](const Tensor& own) {
    ReplicaContext& context = *get_replica_context();
    for (int i = 0; i < times; ++i) context.all_reduce(ReduceOp::Sum, own);
  };
  bench::run(
      {.name = "all-reduce of " + size_name(bytes) + ", " + std::to_string(replicas) + " replicas",
       .ours = [&] { strategy.run(all_reduce, values); },
       .theirs = [&] { plain.run(times); },
       .times = times,
       .limit = 1 / 0.7});
}

void all_reduces() {
  std::printf("%-44s %13s %13s\n", "", "cohort", "plain threads");
  for (const size_t replicas : {2, 4}) {
    for (const int64_t bytes : {4ll << 10, 64ll << 10, 1ll << 20, 16ll << 20, 100ll << 20}) {
      bench_all_reduce(replicas, bytes);
    }
  }
}

// The median time of a call.
void cost(const std::string& name, const std::function<void()>& call, double limit_us = 0) {
  constexpr int kCalls = 1000;
  std::vector<double> times;
  for (int round = 0; round < 31; ++round) {
    times.push_back(bench::seconds_of([&] {
                      for (int i = 0; i < kCalls; ++i) call();
                    }) /
                    kCalls * 1e6);
  }
  const double median = bench::median(times);
  std::printf("%-44s %10.2f us  best %.2f us", name.c_str(), median,
              *std::min_element(times.begin(), times.end()));
  if (limit_us > 0) std::printf("  limit %.0f  %s", limit_us, median <= limit_us ? "ok" : "MISSED");
  std::printf("\n");
}

void single_calls() {
  std::printf("\n2 replicas\n");
  MirroredStrategy strategy(cpus(2));
  Variable mean =
      strategy.create([] { return Variable(1.f, {.aggregation = VariableAggregation::Mean}); });
  const auto numbers = strategy.distribute_values_from_function(
      [](ValueContext context) { return Tensor({context.replica_id_in_sync_group + 1.f}); });
  const auto nothing = [] {};
  const auto merge = [](const Tensor& own) {
    return get_replica_context()->merge_call(
        [](Strategy&, const PerReplica<Tensor>& all) { return all; }, own);
  };
  cost(
      "run of an empty function", [&] { strategy.run(nothing); }, 10);
  cost("run of one merge_call", [&] { strategy.run(merge, numbers); });
  cost("reduce of one number per replica", [&] { strategy.reduce(ReduceOp::Sum, numbers); });
  cost("read of a mirrored variable", [&] { mean.read_value(); });
  cost("assign of a mirrored variable", [&] { mean.assign(Tensor(2.f)); });
  cost("run of one assign with aggregation",
       [&] { strategy.run([&](const Tensor& own) { mean.assign(reshape(own, {})); }, numbers); });
}

nn::Sequential mlp() {
  return nn::Sequential{nn::Dense(784, 512), nn::relu, nn::Dense(512, 512), nn::relu,
                        nn::Dense(512, 10)};
}

nn::Sequential lenet() {
  return nn::Sequential{nn::Conv2d(1, 6, 5, {.padding = 2}),
                        nn::relu,
                        nn::MaxPool2d(2),
                        nn::Conv2d(6, 16, 5),
                        nn::relu,
                        nn::MaxPool2d(2),
                        nn::Flatten(),
                        nn::Dense(400, 120),
                        nn::relu,
                        nn::Dense(120, 84),
                        nn::relu,
                        nn::Dense(84, 10)};
}

// A model and what trains it on a strategy, one batch of 128 per replica and step.
class Training {
 public:
  Training(size_t devices, nn::Sequential (*model)(), const Shape& image)
      : strategy_(cpus(devices)),
        model_(strategy_.create([&] { return model(); })),
        optimizer_(strategy_.create([] { return optim::Sgd({.learning_rate = 0.01}); })),
        images_(strategy_.distribute_values_from_function(
            [&](ValueContext) { return random::uniform(image); })),
        labels_(strategy_.distribute_values_from_function(
            [&](ValueContext) { return random::randint({image[0]}, 0, 10); })) {}

  void step() {
    const auto train = [&](const Tensor& images, const Tensor& labels) {
      GradientTape tape;
      const Tensor loss = nn::softmax_cross_entropy(model_(images), labels);
      optimizer_.apply_gradients(tape.gradient(loss, model_.variables()), model_.variables());
    };
    strategy_.run(train, images_, labels_);
  }

 private:
  MirroredStrategy strategy_;
  nn::Sequential model_;
  optim::Sgd optimizer_;
  PerReplica<Tensor> images_;
  PerReplica<Tensor> labels_;
};

// Twice the examples in the time of one replica would be a ratio of 1.
void bench_training(const std::string& name, nn::Sequential (*model)(), const Shape& image) {
  Training two(2, model, image);
  Training one(1, model, image);
  const double ratio = bench::run({.name = name + ", step on 2 devices over 1",
                                   .ours = [&] { two.step(); },
                                   .theirs = [&] { one.step(); },
                                   .calls = 5,
                                   .rounds = 41,
                                   .limit = 2 / 1.9});
  std::printf("%-44s %.2f times the examples per second\n", "", 2 / ratio);
}

void training() {
  std::printf("\n%-44s %13s %13s\n", "training, 128 examples per replica", "2 replicas",
              "1 replica");
  at::set_num_threads(1);
  bench_training("MLP 784-512-512-10", mlp, {128, 784});
  bench_training("LeNet on 28x28", lenet, {128, 1, 28, 28});
}

}  // namespace

int main() {
  all_reduces();
  single_calls();
  training();
}
