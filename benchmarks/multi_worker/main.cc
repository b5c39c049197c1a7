// MultiWorkerMirroredStrategy with two workers of one replica each, as processes of this host,
// beside MirroredStrategy with two replicas in one process, and beside PyTorch's
// DistributedDataParallel with two ranks.
//
//   bench_multi_worker                  all of it
//   bench_multi_worker worker TASK      one of the workers: TF_CONFIG says which

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "ddp.h"
#include "ratio.h"
#include "support/free_ports.h"
#include "training_loop.h"

namespace cohort::bench {
namespace {

constexpr int kSteps = 10;  // per measurement
constexpr int kRounds = 21;

const Task& task_named(const std::string& name) {
  static const std::vector<Task> all = tasks();
  return all[0].short_name == name ? all[0] : all[1];
}

// Does as many steps as worker 0 reads, which tells the others.
int run_worker(const std::string& name) {
  auto strategy = std::make_unique<MultiWorkerMirroredStrategy>();
  Communicator workers = strategy->communicator();
  Training training(std::move(strategy), task_named(name));
  for (int i = 0; i < kSteps; ++i) training.step();
  std::cout << "ready" << std::endl;
  for (;;) {
    int64_t steps = 0;
    if (workers.rank() == 0 && !(std::cin >> steps)) steps = 0;
    steps = workers.broadcast(Tensor(steps)).to<int64_t>();
    if (steps == 0) return 0;
    const double seconds = seconds_of([&] {
      for (int64_t i = 0; i < steps; ++i) training.step();
    });
    if (workers.rank() == 0) std::cout << seconds << std::endl;
  }
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
    return std::make_unique<ProcessTraining>(
        std::vector<std::string>{program, "worker", task.short_name});
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

void bench_task(const std::string& program, const Task& task, double aim) {
  Workers workers(program, task);
  Training mirrored(cpus(2), task);
  std::unique_ptr<DdpTraining> ddp;
  if (DdpTraining::is_installed()) ddp = std::make_unique<DdpTraining>(task.short_name);
  std::vector<double> ours;
  std::vector<double> in_process;
  std::vector<double> theirs;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(workers.seconds_of(kSteps));
    in_process.push_back(seconds_of([&] {
      for (int i = 0; i < kSteps; ++i) mirrored.step();
    }));
    if (ddp) theirs.push_back(ddp->seconds_of(kSteps));
  }
  report(task.name + ", beside one process", ours, in_process, 0.93);
  if (ddp) report(task.name + ", beside PyTorch DDP", ours, theirs, aim);
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  using namespace cohort::bench;  // NOLINT: a program
  if (argc == 3 && std::string(argv[1]) == "worker") return run_worker(argv[2]);
  at::set_num_threads(1);
  std::printf("%-44s %13s %13s\n", "2 workers, 128 examples each", "cohort", "other");
  if (!DdpTraining::is_installed()) {
    std::printf("PyTorch DDP: left out, because python3-torch is not installed\n");
  }
  bench_task("/proc/self/exe", tasks()[0], 1.9);
  bench_task("/proc/self/exe", tasks()[1], 1.5);
}
