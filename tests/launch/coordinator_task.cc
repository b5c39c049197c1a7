// A chief whose program ends in the named way: coordinator_task WAY. Its functions add to a
// variable or fail on a worker.

#include <cohort/cohort.h>

#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

using namespace cohort;

namespace {

struct Chief {
  ClusterCoordinator& coordinator;
  Variable total;

  void add(int times) {
    const auto step = function([&] { total.assign_add(1.f); });
    for (int i = 0; i < times; ++i) coordinator.schedule(step);
  }
  RemoteValue<Tensor> fail() {
    return coordinator.schedule([](Tensor x) { return gather(x, Tensor({99})); }, Tensor({1.f}));
  }
  // Waits for the end of a function that failed, without a call that throws the error.
  void fail_and_wait() {
    const RemoteValue failed = fail();
    while (failed.status() == RemoteValueStatus::NotReady) {
    }
  }
};

const std::map<std::string, std::function<void(Chief&)>> kWays = {
    {"forgets", [](Chief& chief) { chief.add(2000); }},
    {"forgets_error", [](Chief& chief) { chief.fail_and_wait(); }},
    {"joins",
     [](Chief& chief) {
       chief.add(20);
       chief.coordinator.join();
     }},
    {"joins_error",
     [](Chief& chief) {
       chief.fail();
       (void)capture_status([&] { chief.coordinator.join(); });
     }},
    {"joins_uncaught",
     [](Chief& chief) {
       chief.fail();
       chief.coordinator.join();
     }},
    {"fetches_error",
     [](Chief& chief) {
       const RemoteValue failed = chief.fail();
       (void)capture_status([&] { failed.fetch(); });
     }},
    {"throws",
     [](Chief& chief) {
       chief.add(2000);
       throw std::logic_error("the disk is full");
     }},
    {"shuts_down",
     [](Chief& chief) {
       chief.add(2000);
       chief.coordinator.shutdown_cluster();
     }},
};

void run(const std::string& way) {
  const auto strategy = strategy_from_environment();
  const auto scope = strategy->scope();
  ClusterCoordinator coordinator(*strategy);
  Chief chief{coordinator, Variable(0.f)};
  kWays.at(way)(chief);
  std::printf("the program ends\n");
}

}  // namespace

int main(int, char** argv) {
  try {
    run(argv[1]);
  } catch (const std::logic_error& error) {
    std::printf("caught: %s\n", error.what());
  }
}
