// A chief, parameter servers and workers as real processes of this host.
//
//   bench_parameter_server             all of it
//   bench_parameter_server functions   one part: functions, dense, embedding, training

#include <cohort/cohort.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>

#include "models.h"
#include "own_path.h"
#include "ratio.h"
#include "support/listed_cluster.h"
#include "support/process_cluster.h"
#include "zeromq/zeromq.h"

namespace {

using namespace cohort;  // NOLINT: a program

using bench::own_path;
using bench::seconds_of;

// A cluster whose messages go that way, and a coordinator of its workers.
struct Cluster {
  Cluster(const std::string& way, int num_ps, int num_workers,
          const ClusterCoordinatorOptions& options = {}) {
    setenv("COHORT_TRANSPORT", way.c_str(), 1);
    tasks = std::make_unique<test::ProcessCluster>(own_path(), num_ps, num_workers);
    resolver = std::make_unique<SimpleClusterResolver>(tasks->spec());
    strategy = std::make_unique<ParameterServerStrategy>(*resolver);
    coordinator = std::make_unique<ClusterCoordinator>(*strategy, options);
  }
  ~Cluster() { unsetenv("COHORT_TRANSPORT"); }
  std::unique_ptr<test::ProcessCluster> tasks;
  std::unique_ptr<SimpleClusterResolver> resolver;
  std::unique_ptr<ParameterServerStrategy> strategy;
  std::unique_ptr<ClusterCoordinator> coordinator;
};

void bench_functions(const std::string& way, double wanted) {
  Cluster cluster(way, 1, 2);
  ClusterCoordinator& coordinator = *cluster.coordinator;
  const auto nothing = function([] {});
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) coordinator.schedule(nothing);
    coordinator.join();
  };
  run(2000);
  constexpr int kCount = 20'000;
  const double seconds = seconds_of([&] { run(kCount); });
  std::vector<double> latencies;
  for (int i = 0; i < 2000; ++i) {
    latencies.push_back(1e6 *
                        seconds_of([&] { coordinator.fetch(coordinator.schedule(nothing)); }));
  }
  std::nth_element(latencies.begin(), latencies.begin() + 1000, latencies.end());
  std::printf(
      "%-14s %8.0f empty functions/s (limit %.0f); schedule and fetch %.0f us (limit 200)\n",
      way.c_str(), kCount / seconds, wanted, latencies[1000]);
}

void bench_dense() {
  constexpr int64_t kBytes = int64_t{64} << 20;
  Cluster cluster("shared-memory", 1, 1);
  Variable v = cluster.strategy->create([] { return Variable(zeros({kBytes / 4})); });
  const auto exchange = function([&] {
    const Tensor value = v.read_value();
    v.assign_add(zeros({kBytes / 4}));
    return slice(value, {{0, 1}});
  });
  if (!bench::ZeroMq::is_there()) {
    std::printf("ZeroMQ: left out, built without it (libzmq3-dev)\n");
    return;
  }
  bench::ZeroMq theirs(own_path(), size_t{kBytes});
  bench::run({.name = "push and pull of 64 MB over ZeroMQ",
              .ours = [&] { cluster.coordinator->fetch(cluster.coordinator->schedule(exchange)); },
              .theirs = [&] { theirs.push_and_pull(); },
              .rounds = 9,
              .limit = 1. / 3});
}

// Looks rows up and trains them, or the whole table.
double rows_per_second(Cluster& cluster, int64_t rows, bool sparse, int steps) {
  constexpr int64_t kIds = 4096, kWidth = 64;
  const Variable table = cluster.strategy->create([&] {
    return Variable([&] { return ones({rows, kWidth}); });
  });
  optim::Adagrad optimizer({.learning_rate = 0.01});
  const auto step = function([&](Tensor ids) {
    cluster.strategy->run(
        [&](Tensor own) {
          GradientTape tape;
          const Tensor whole = sparse ? Tensor(table) : Tensor(table) * 1.f;
          const Tensor loss = sum(nn::embedding_lookup(whole, own));
          const Gradients found = tape.gradient(loss, std::vector{table});
          optimizer.apply_gradients({sparse ? found[0] : Gradient(found[0].dense())}, {table});
        },
        ids);
  });
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      cluster.coordinator->schedule(step, random::randint({kIds}, 0, rows));
    }
    cluster.coordinator->join();
  };
  run(1);
  return static_cast<double>(steps * kIds) / seconds_of([&] { run(steps); });
}

void bench_embedding() {
  constexpr int64_t kRows = 1'000'000;
  Cluster cluster("shared-memory", 1, 1);
  const double sparse = rows_per_second(cluster, kRows, true, 20);
  const double dense = rows_per_second(cluster, kRows, false, 2);
  std::printf(
      "sparse Adagrad on 4,096 of 1,000,000 rows of 64: %.0f rows/s, densely %.0f, %.1f "
      "times as fast (limit 5)\n",
      sparse, dense, sparse / dense);
}

constexpr int kBatch = 128;

class Mirrored {
 public:
  // Of both replicas.
  void train(int steps) {
    const auto scope = strategy_.scope();
    for (int i = 0; i < steps / 2; ++i) {
      strategy_.run([&] {
        GradientTape tape;
        const Tensor loss = nn::softmax_cross_entropy(model_(x_), y_);
        optimizer_.apply_gradients(tape.gradient(loss, model_.variables()), model_.variables());
      });
    }
  }

 private:
  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
  nn::Sequential model_ = strategy_.create([] { return bench::mlp(); });
  optim::Sgd optimizer_ = strategy_.create([] { return optim::Sgd({.learning_rate = 0.01}); });
  const Tensor x_ = random::uniform({kBatch, 784}), y_ = zeros({kBatch}, kInt64);
};

// A worker has one step under way, so that it takes one core and others have the rest: with several
// one worker alone would take them all.
class Coordinated {
 public:
  explicit Coordinated(int workers)
      : cluster_("shared-memory", 1, workers, {.functions_per_worker = 1}) {
    const auto scope = cluster_.strategy->scope();
    model_ = std::make_unique<nn::Sequential>(bench::mlp());
    batches_ = std::make_unique<PerWorkerDataset>(cluster_.coordinator->create_per_worker_dataset(
        data::from_tensors(data::Element::tuple(std::vector<Tensor>{random::uniform({kBatch, 784}),
                                                                    zeros({kBatch}, kInt64)}))
            .repeat()));
    const auto iterator = batches_->iterator();
    const auto step = function([this](Iterator it) {
      cluster_.strategy->run(
          [&](Tensor x, Tensor y) {
            GradientTape tape;
            const Tensor loss = nn::softmax_cross_entropy((*model_)(x), y);
            const std::vector<Variable> variables = model_->variables();
            optimizer_.apply_gradients(tape.gradient(loss, variables), variables);
          },
          it.next());
    });
    schedule_ = [this, step, iterator] { cluster_.coordinator->schedule(step, iterator); };
  }

  // Of all workers.
  void train(int steps) {
    const auto scope = cluster_.strategy->scope();
    for (int i = 0; i < steps; ++i) schedule_();
    cluster_.coordinator->join();
  }

 private:
  Cluster cluster_;
  std::unique_ptr<nn::Sequential> model_;
  optim::Sgd optimizer_{{.learning_rate = 0.01}};
  std::unique_ptr<PerWorkerDataset> batches_;
  std::function<void()> schedule_;
};

void bench_training() {
  constexpr int kSteps = 60;
  Coordinated one(1);
  Coordinated two(2);
  Mirrored mirrored;
  const auto train = [](auto& trained) { return [&trained] { trained.train(kSteps); }; };
  bench::run({.name = "MLP, 2 workers over 1, a step at a time each",
              .ours = train(two),
              .theirs = train(one),
              .times = kSteps,
              .rounds = 9,
              .limit = 1 / 1.6});
  bench::run({.name = "MLP, 2 workers over Mirrored with 2 replicas",
              .ours = train(two),
              .theirs = train(mirrored),
              .times = kSteps,
              .rounds = 9,
              .limit = 1 / 0.7});
}

int serve(char** words) {
  const ClusterSpec cluster = test::listed_cluster(words[0], words[1]);
  Server(cluster, {.job_name = words[2], .task_index = std::stoi(words[3])}).join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2) prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than who measures
  if (argc == 5) return serve(argv + 1);
  if (argc == 3) bench::serve_zeromq(argv[2]);
  const std::string part = argc > 1 ? argv[1] : "";
  const auto wanted = [&](const char* name) { return part.empty() || part == name; };
  if (wanted("functions")) {
    bench_functions("shared-memory", 20'000);
    bench_functions("grpc", 2'000);
  }
  if (wanted("dense")) bench_dense();
  if (wanted("embedding")) bench_embedding();
  if (wanted("training")) bench_training();
} catch (const Error& error) {
  std::fprintf(stderr, "bench_parameter_server: %s\n", error.what());
  return 1;
}
