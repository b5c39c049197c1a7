// MultiWorkerMirroredStrategy with two workers of one replica each, as processes of this host,
// beside MirroredStrategy with two replicas in one process, and beside PyTorch's
// DistributedDataParallel and tf.distribute's MultiWorkerMirroredStrategy, two processes each,
// where those are installed. The last row compares workers that reduce gradients during the
// backward pass with workers that do not, both over gRPC.
//
//   bench_multi_worker                               all of it
//   bench_multi_worker worker TASK [OVERLAP]         one of the workers: TF_CONFIG says which

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cohort/collective.h"
#include "peers.h"
#include "ratio.h"
#include "support/free_ports.h"
#include "train_as_told.h"
#include "training_loop.h"

namespace cohort::bench {
namespace {

constexpr int kSteps = 10;  // per measurement
constexpr int kRounds = 21;

// 42 MB of gradients, which fill several packs: with one pack there is nothing to reduce early.
nn::Sequential wide_mlp() {
  return nn::Sequential{nn::Dense(784, 2048),  nn::relu, nn::Dense(2048, 2048), nn::relu,
                        nn::Dense(2048, 2048), nn::relu, nn::Dense(2048, 10)};
}

Task wide_task() { return {"MLP 784-2048-2048-2048-10 by gRPC", "wide", wide_mlp, {128, 784}}; }

Task task_named(const std::string& name) {
  for (const Task& task : tasks()) {
    if (task.short_name == name) return task;
  }
  return wide_task();
}

// `overlap`: "on" or "off", over gRPC; empty where the strategy chooses both.
int run_worker(const std::string& name, const std::string& overlap) {
  MultiWorkerOptions options;
  if (!overlap.empty()) {
    setenv("COHORT_TRANSPORT", "grpc", 1);
    options.overlap = overlap == "on";
  }
  auto strategy = std::make_unique<MultiWorkerMirroredStrategy>(options);
  const Communicator workers = strategy->communicator();
  Training training(std::move(strategy), task_named(name));
  for (int i = 0; i < kSteps; ++i) training.step();
  std::cout << "ready" << std::endl;
  train_as_told(workers, std::cin, std::cout, [&] { training.step(); });
  return 0;
}

// Two of these processes.
class Workers {
 public:
  explicit Workers(const std::vector<std::string>& words)
      : addresses_(test::free_addresses(2)), second_(start(1, words)), first_(start(0, words)) {
    first_->await();
    second_->await();
  }
  double seconds_of(int steps) { return first_->seconds_of(steps); }

 private:
  std::unique_ptr<ProcessTraining> start(int id, const std::vector<std::string>& words) {
    const std::string config = R"({"cluster": {"worker": [")" + addresses_[0] + R"(", ")" +
                               addresses_[1] + R"("]}, "task": {"type": "worker", "index": )" +
                               std::to_string(id) + "}}";
    setenv("TF_CONFIG", config.c_str(), 1);
    auto started = std::make_unique<ProcessTraining>(words);
    unsetenv("TF_CONFIG");  // this process trains alone
    return started;
  }

  const std::vector<std::string> addresses_;
  std::unique_ptr<ProcessTraining> second_;
  std::unique_ptr<ProcessTraining> first_;  // ends first, and tells the other
};

void report(const std::string& name, const std::vector<double>& ours,
            const std::vector<double>& theirs, double aim) {
  const auto best = [](const std::vector<double>& all) {
    return *std::min_element(all.begin(), all.end());
  };
  const double speed = median(theirs) / median(ours);
  std::printf("%-44s %10.2f us %10.2f us  %.2f times the speed (best %.2f), aim %.2f  %s\n",
              name.c_str(), median(ours) / kSteps * 1e6, median(theirs) / kSteps * 1e6, speed,
              best(theirs) / best(ours), aim, speed >= aim ? "ok" : "MISSED");
  std::fflush(stdout);
}

// Somebody else's training of the same.
struct Peer {
  std::string name;
  double aim;
  std::unique_ptr<ProcessTraining> training = {};
  std::vector<double> times = {};
};

std::vector<Peer> installed_peers(const Task& task, double ddp_aim) {
  std::vector<Peer> peers;
  if (DdpTraining::is_installed()) {
    peers.push_back({"PyTorch DDP", ddp_aim, std::make_unique<DdpTraining>(task.short_name)});
  }
  if (TensorFlowTraining::is_installed()) {
    peers.push_back({"TensorFlow", 1, std::make_unique<TensorFlowTraining>(task.short_name)});
  }
  return peers;
}

void bench_task(const std::string& program, const Task& task, double ddp_aim) {
  std::vector<Peer> peers = installed_peers(task, ddp_aim);
  Workers workers({program, "worker", task.short_name});
  Training mirrored(cpus(2), task);
  std::vector<double> ours;
  std::vector<double> in_process;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(workers.seconds_of(kSteps));
    in_process.push_back(seconds_of([&] {
      for (int i = 0; i < kSteps; ++i) mirrored.step();
    }));
    for (Peer& peer : peers) peer.times.push_back(peer.training->seconds_of(kSteps));
  }
  report(task.name + ", beside one process", ours, in_process, 0.93);
  for (const Peer& peer : peers) {
    report(task.name + ", beside " + peer.name, ours, peer.times, peer.aim);
  }
}

void bench_overlap(const std::string& program, const Task& task) {
  Workers with({program, "worker", task.short_name, "on"});
  Workers without({program, "worker", task.short_name, "off"});
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(with.seconds_of(kSteps));
    theirs.push_back(without.seconds_of(kSteps));
  }
  report(task.name + ", beside no overlap", ours, theirs, 1.1);
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  using namespace cohort::bench;  // NOLINT: a program
  if (argc >= 3 && std::string(argv[1]) == "worker") {
    return run_worker(argv[2], argc > 3 ? argv[3] : "");
  }
  at::set_num_threads(1);
  std::printf("%-44s %13s %13s\n", "2 workers, 128 examples each", "cohort", "other");
  if (!DdpTraining::is_installed()) {
    std::printf("PyTorch DDP: left out, python3-torch is not installed\n");
  }
  if (!TensorFlowTraining::is_installed()) {
    std::printf("TensorFlow: left out, python3 has no package tensorflow\n");
  }
  bench_task("/proc/self/exe", tasks()[0], 1.9);
  bench_task("/proc/self/exe", tasks()[1], 1.5);
  bench_overlap("/proc/self/exe", wide_task());
}
