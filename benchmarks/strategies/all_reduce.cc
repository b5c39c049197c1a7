#include <cohort/cohort.h>

#include <algorithm>

#include "parts.h"
#include "plain_adder.h"
#include "ratio.h"

namespace cohort::bench {
namespace {

std::string size_name(int64_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KB"
                         : std::to_string(bytes >> 20) + " MB";
}

void bench_all_reduce(size_t replicas, int64_t bytes) {
  MirroredStrategy strategy(cpus(replicas));
  const int64_t size = bytes / 4;
  PlainAdder plain(replicas, size);
  const auto values = strategy.distribute_values_from_function(
      [&](ValueContext context) { return fill({size}, context.replica_id_in_sync_group + 1.f); });
  const int times = static_cast<int>(std::clamp<int64_t>((8 << 20) / bytes, 4, 500));
  const auto all_reduce = [times](const Tensor& own) {
    ReplicaContext& context = *get_replica_context();
    for (int i = 0; i < times; ++i) context.all_reduce(ReduceOp::Sum, own);
  };
  run({.name = "all-reduce of " + size_name(bytes) + ", " + std::to_string(replicas) + " replicas",
       .ours = [&] { strategy.run(all_reduce, values); },
       .theirs = [&] { plain.run(times); },
       .times = times,
       .limit = 1 / 0.7});
}

}  // namespace

void all_reduces() {
  std::printf("%-44s %13s %13s\n", "", "cohort", "plain threads");
  for (const size_t replicas : {2, 4}) {
    for (const int64_t bytes : {4ll << 10, 64ll << 10, 1ll << 20, 16ll << 20, 100ll << 20}) {
      bench_all_reduce(replicas, bytes);
    }
  }
}

}  // namespace cohort::bench
