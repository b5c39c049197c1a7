#include <thread>

#include "ratio.h"
#include "training_loop.h"

namespace cohort::bench {
namespace {

constexpr int kSteps = 5;  // per measurement

void steps(Training& training) {
  for (int i = 0; i < kSteps; ++i) training.step();
}

constexpr double kAim = 1.9;
constexpr int kRounds = 41;

// Times of one step, of measurements that were made in turn.
struct Times {
  std::vector<double> one;    // replica
  std::vector<double> two;    // replicas
  std::vector<double> apart;  // two threads that know nothing of each other
};

Times measure(const Task& task) {
  Training two(cpus(2), task);
  Training one({"CPU:0"}, task);
  Training other({"CPU:1"}, task);
  const auto both_apart = [&] {
    std::thread thread([&] { steps(other); });
    steps(one);
    thread.join();
  };
  Times times;
  for (int round = 0; round < kRounds; ++round) {
    times.two.push_back(seconds_of([&] { steps(two); }) / kSteps);
    times.one.push_back(seconds_of([&] { steps(one); }) / kSteps);
    times.apart.push_back(seconds_of(both_apart) / kSteps);
  }
  return times;
}

// What two threads that never meet reach is what the machine gives at that moment.
void bench_replicas(const Task& task) {
  const Times times = measure(task);
  const double one = median(times.one);
  const double speedup = 2 * one / median(times.two);
  const double limit = 2 * one / median(times.apart);
  std::printf("%-44s %10.2f us %10.2f us  %.2f times the examples per second, aim %.1f  %s\n",
              (task.name + ", 2 replicas over 1").c_str(), median(times.two) * 1e6, one * 1e6,
              speedup, kAim, speedup >= kAim ? "ok" : "MISSED");
  std::printf("%-44s %10.2f us %10.2f us  %.2f times, of which 2 replicas reach %.0f %%\n",
              (task.name + ", 2 that never meet over 1").c_str(), median(times.apart) * 1e6,
              one * 1e6, limit, 100 * speedup / limit);
  std::fflush(stdout);
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
  const double share = (ratio - 1) / static_cast<double>(*GuardOptions().divergence_interval);
  std::printf("%-44s by default %.3f %% of a step, limit 0.5  %s\n", "", 100 * share,
              share <= 0.005 ? "ok" : "MISSED");
}

}  // namespace

void training() {
  std::printf("\n%-44s\n", "training, 128 examples per replica");
  for (const Task& task : tasks()) {
    bench_replicas(task);
    bench_guard(task);
  }
}

}  // namespace cohort::bench
