// MultiWorkerMirroredStrategy with two workers of one replica each, as processes of this host,
// beside MirroredStrategy with two replicas in one process, and beside PyTorch's
// DistributedDataParallel and tf.distribute's MultiWorkerMirroredStrategy, two processes each,
// where those are installed.
//
//   bench_multi_worker                  all of it
//   bench_multi_worker worker TASK      one of the workers: TF_CONFIG says which

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "peers.h"
#include "ratio.h"
#include "support/free_ports.h"
#include "train_as_told.h"
#include "training_loop.h"

namespace cohort::bench {
namespace {

constexpr int kSteps = 10;  // per measurement
constexpr int kRounds = 21;

const Task& task_named(const std::string& name) {
  static const std::vector<Task> all = tasks();
  return all[0].short_name == name ? all[0] : all[1];
}

int run_worker(const std::string& name) {
  auto strategy = std::make_unique<MultiWorkerMirroredStrategy>();
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
  Workers(const std::string& program, const Task& task)
      : addresses_(test::free_addresses(2)),
        second_(start(1, program, task)),
        first_(start(0, program, task)) {
    first_->await();
    second_->await();
  }
  double seconds_of(int steps) { return first_->seconds_of(steps); }

 private:
  std::unique_ptr<ProcessTraining> start(int id, const std::string& program, const Task& task) {
    const std::string config = R"({"cluster": {"worker": [")" + addresses_[0] + R"(", ")" +
                               addresses_[1] + R"("]}, "task": {"type": "worker", "index": )" +
                               std::to_string(id) + "}}";
    setenv("TF_CONFIG", config.c_str(), 1);
    auto started = std::make_unique<ProcessTraining>(
        std::vector<std::string>{program, "worker", task.short_name});
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
  Workers workers(program, task);
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

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  using namespace cohort::bench;  // NOLINT: a program
  if (argc == 3 && std::string(argv[1]) == "worker") return run_worker(argv[2]);
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
}
