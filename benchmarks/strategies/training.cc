#include <thread>

#include "ratio.h"
#include "training_loop.h"

namespace cohort::bench {
namespace {

constexpr int kSteps = 5;  // per measurement

void steps(Training& training) {
  for (int i = 0; i < kSteps; ++i) training.step();
}

// Twice the examples in the time of one replica would be a ratio of 1.
void print_speedup(double ratio) {
  std::printf("%-44s %.2f times the examples per second\n", "", 2 / ratio);
}

void bench_replicas(const Task& task) {
  Training two(cpus(2), task);
  Training one(cpus(1), task);
  print_speedup(run({.name = task.name + ", 2 replicas over 1",
                     .ours = [&] { steps(two); },
                     .theirs = [&] { steps(one); },
                     .times = kSteps,
                     .rounds = 41,
                     .limit = 2 / 1.9}));
}

// What the machine gives at most: two threads that know nothing of each other.
void bench_apart(const Task& task) {
  Training one({"CPU:0"}, task);
  Training other({"CPU:1"}, task);
  print_speedup(run({.name = task.name + ", 2 that never meet over 1",
                     .ours =
                         [&] {
                           std::thread thread([&] { steps(other); });
                           steps(one);
                           thread.join();
                         },
                     .theirs = [&] { steps(one); },
                     .times = kSteps,
                     .rounds = 41,
                     .limit = 2 / 1.9}));
}

// A check at every step is dear enough to be seen; by default there is one in a hundred steps.
void bench_guard(const Task& task) {
  Training always(cpus(2), task, {.divergence_interval = 1});
  Training never(cpus(2), task, {.divergence = GuardAction::Off});
  const double ratio = run({.name = task.name + ", compared every step, or never",
                            .ours = [&] { steps(always); },
                            .theirs = [&] { steps(never); },
                            .times = kSteps,
                            .rounds = 21,
                            .limit = 1.5});
  const double share = (ratio - 1) / static_cast<double>(GuardOptions().divergence_interval);
  std::printf("%-44s by default %.3f %% of a step, limit 0.5  %s\n", "", 100 * share,
              share <= 0.005 ? "ok" : "MISSED");
}

}  // namespace

void training() {
  std::printf("\n%-44s\n", "training, 128 examples per replica");
  for (const Task& task : tasks()) {
    bench_replicas(task);
    bench_apart(task);
    bench_guard(task);
  }
}

}  // namespace cohort::bench
