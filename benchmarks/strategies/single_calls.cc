#include <cohort/cohort.h>

#include "parts.h"
#include "ratio.h"

namespace cohort::bench {
namespace {

// The median time of a call.
void cost(const std::string& name, const std::function<void()>& call, double limit_us = 0) {
  constexpr int kCalls = 1000;
  std::vector<double> times;
  for (int round = 0; round < 31; ++round) {
    times.push_back(seconds_of([&] {
                      for (int i = 0; i < kCalls; ++i) call();
                    }) /
                    kCalls * 1e6);
  }
  const double typical = median(times);
  std::printf("%-44s %10.2f us  best %.2f us", name.c_str(), typical,
              *std::min_element(times.begin(), times.end()));
  if (limit_us > 0) {
    std::printf("  limit %.0f  %s", limit_us, typical <= limit_us ? "ok" : "MISSED");
  }
  std::printf("\n");
}

}  // namespace

void single_calls() {
  std::printf("\n2 replicas\n");
  MirroredStrategy strategy(cpus(2));
  Variable mean =
      strategy.create([] { return Variable(1.f, {.aggregation = VariableAggregation::Mean}); });
  const auto numbers = strategy.distribute_values_from_function(
      [](ValueContext context) { return Tensor({context.replica_id_in_sync_group + 1.f}); });
  const auto nothing = [] {};
  const auto merge = [](const Tensor& own) {
    return get_replica_context()->merge_call(
        [](Strategy&, const PerReplica<Tensor>& all) { return all; }, own);
  };
  cost(
      "run of an empty function", [&] { strategy.run(nothing); }, 10);
  cost("run of one merge_call", [&] { strategy.run(merge, numbers); });
  cost("reduce of one number per replica", [&] { strategy.reduce(ReduceOp::Sum, numbers); });
  cost("read of a mirrored variable", [&] { mean.read_value(); });
  cost("assign of a mirrored variable", [&] { mean.assign(Tensor(2.f)); });
  cost("run of one assign with aggregation",
       [&] { strategy.run([&](const Tensor& own) { mean.assign(reshape(own, {})); }, numbers); });
}

}  // namespace cohort::bench
