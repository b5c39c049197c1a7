// Tasks keep nothing of functions that are over.

#include <gtest/gtest.h>
#include <malloc.h>

#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

// Bytes that are allocated now, by all threads.
int64_t allocated() {
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

constexpr int kFunctions = 8000;
// The caches of threads grow and shrink by this much. A number for each function would be more.
constexpr int64_t kNoise = 160'000;

// Chief, parameter server and workers are in this process.
struct Busy : test::CoordinatedCluster {
  explicit Busy(const ParameterServerOptions& options = {},
                const ClusterCoordinatorOptions& coordinating = {})
      : CoordinatedCluster(1, 2, options), coordinator(strategy, coordinating) {}
  ClusterCoordinator coordinator;
  Variable v = strategy.create([] { return Variable(zeros({16})); });
  optim::Sgd optimizer{{.learning_rate = 0.5}};

  // How many bytes more are allocated after kFunctions.
  template <typename Schedule>
  int64_t growth(const Schedule& schedule) {
    const auto run = [&](int count) {
      for (int i = 1; i <= count; ++i) {
        schedule();
        if (i % 100 == 0) coordinator.join();
      }
      coordinator.join();
    };
    run(kFunctions / 2);  // what is needed for good is there
    const int64_t before = allocated();
    run(kFunctions);
    return allocated() - before;
  }
};

TEST(Footprint, DoesNotGrowWithUpdates) {
  Busy here;
  const auto step = function([&](Tensor by) { here.v.assign_add(by); });
  const Tensor one = ones({16});
  EXPECT_LT(here.growth([&] { here.coordinator.schedule(step, one); }), kNoise);
}

TEST(Footprint, DoesNotGrowWithResults) {
  Busy here;
  const auto step = function([&](Tensor by) { return here.v + by; });
  const Tensor one = ones({16});
  EXPECT_LT(here.growth([&] { here.coordinator.fetch(here.coordinator.schedule(step, one)); }),
            kNoise);
}

TEST(Footprint, DoesNotGrowWithResultsThatAreArguments) {
  Busy here({}, {.remote_arguments = true});
  const auto step = function([&](Tensor by) { return by * 0.5f; });
  RemoteValue last = here.coordinator.schedule(step, ones({16}));
  EXPECT_LT(here.growth([&] { last = here.coordinator.schedule(step, last); }), kNoise);
}

TEST(Footprint, DoesNotGrowWithGroups) {
  Busy here({.sync = true});
  const auto step =
      function([&](Tensor by) { here.optimizer.apply_gradients({Gradient(by)}, {here.v}); });
  const Tensor one = ones({16});
  EXPECT_LT(here.growth([&] { here.coordinator.schedule(step, one); }), kNoise);
}

}  // namespace
}  // namespace cohort
