#include <cstdio>

#include "peers.h"
#include "ratio.h"
#include "training_loop.h"

namespace cohort::bench {
namespace {

constexpr int kSteps = 10;  // per measurement
constexpr int kRounds = 21;

void bench_task(const Task& task, double aim) {
  Training ours(cpus(2), task);
  DdpTraining theirs(task.short_name);
  std::vector<double> our_times;
  std::vector<double> their_times;
  for (int round = 0; round < kRounds; ++round) {
    our_times.push_back(seconds_of([&] {
      for (int i = 0; i < kSteps; ++i) ours.step();
    }));
    their_times.push_back(theirs.seconds_of(kSteps));
  }
  const double speed = median(their_times) / median(our_times);
  std::printf("%-44s %10.2f us %10.2f us  %.2f times the speed, aim %.1f  %s\n", task.name.c_str(),
              median(our_times) / kSteps * 1e6, median(their_times) / kSteps * 1e6, speed, aim,
              speed >= aim ? "ok" : "MISSED");
  std::fflush(stdout);
}

}  // namespace

void training_beside_ddp() {
  if (!DdpTraining::is_installed()) {
    std::printf("\nPyTorch DDP: left out, python3-torch is not installed\n");
    return;
  }
  std::printf("\n%-44s %13s %13s\n", "2 replicas, 128 examples each", "cohort", "PyTorch DDP");
  bench_task(tasks()[0], 2.0);
  bench_task(tasks()[1], 1.6);
}

}  // namespace cohort::bench
