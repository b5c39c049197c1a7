// A chief that may be killed at any time: chief PS_ADDRESSES WORKER_ADDRESSES DIRECTORY COUNT. Has
// the workers add one to each of COUNT numbers, which are on the parameter servers, and saves them
// now and then; begins with what was saved last. Ends with 0 when each of them is 1, whatever
// happened before.

#include <cohort/cohort.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "support/listed_cluster.h"

namespace {

using namespace cohort;  // NOLINT: a program

constexpr int64_t kBetweenSaves = 20;

void say(const std::string& text) {
  std::puts(text.c_str());
  std::fflush(stdout);
}

bool train(const ClusterSpec& cluster, const std::string& directory, int64_t count) {
  const SimpleClusterResolver resolver(cluster);
  ParameterServerStrategy strategy(resolver);
  Variable left = strategy.create([&] { return Variable(zeros({count}), {.name = "left"}); });
  Variable right = strategy.create([&] { return Variable(zeros({count}), {.name = "right"}); });
  Variable next(int64_t{0}, {.name = "next"});
  CheckpointManager manager(Checkpoint({{"left", left}, {"right", right}, {"next", next}}),
                            directory, {.max_to_keep = 2});
  manager.restore_latest();
  ClusterCoordinator coordinator(strategy);
  const auto add = function([&](Tensor which) {
    left.scatter_add({ones({1}), which, {count}});
    right.scatter_add({ones({1}), which, {count}});
  });
  int64_t at = next.read_value().to<int64_t>();
  while (at < count) {
    for (const int64_t end = std::min(count, at + kBetweenSaves); at < end; ++at) {
      coordinator.schedule(add, Tensor({at}));
    }
    coordinator.join();
    next.assign(at);
    manager.save();
    say("saved " + std::to_string(at));
  }
  const std::vector<float> once(static_cast<size_t>(count), 1.f);
  return left.read_value().to_vector<float>() == once &&
         right.read_value().to_vector<float>() == once;
}

}  // namespace

int main(int argc, char** argv) try {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than the test
  if (argc != 5) return 2;
  const bool exact = train(test::listed_cluster(argv[1], argv[2]), argv[3], std::stoll(argv[4]));
  say(exact ? "each of them once" : "lost or repeated");
  return exact ? 0 : 1;
} catch (const cohort::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
