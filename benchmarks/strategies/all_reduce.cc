#include <cohort/cohort.h>

#include <algorithm>
#include <cstdlib>

#include "base/machine.h"
#include "distribute/reduce/thread_all_reduce.h"
#include "parts.h"
#include "plain_adder.h"
#include "ratio.h"

namespace cohort::bench {
namespace {

std::string size_name(int64_t bytes) {
  if (bytes < 1 << 10) return std::to_string(bytes) + " B";
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

// A path for small values beside slices, which other values take. `path` is its name.
void bench_small(size_t replicas, int64_t bytes, const std::string& path) {
  MirroredStrategy strategy(cpus(replicas));
  internal::ThreadAllReduce small(cpus(replicas));
  internal::ThreadAllReduce slices(cpus(replicas), {.inline_bytes = 0, .at_once_bytes = 0});
  const auto values = strategy.distribute_values_from_function([&](ValueContext context) {
    return fill({bytes / 4}, context.replica_id_in_sync_group + 1.f);
  });
  constexpr int kTimes = 500;
  const auto run_all = [&](internal::ThreadAllReduce& all_reduce) {
    const auto in_replica = [&](const Tensor& own) {
      const ReplicaContext& context = *get_replica_context();
      const std::vector<Gradient> list{own};
      for (int i = 0; i < kTimes; ++i) {
        all_reduce.run(*internal::Access::rendezvous(context), context.local_replica(),
                       {.what = "all_reduce", .values = list}, [](const auto&) { std::abort(); });
      }
    };
    strategy.run(in_replica, values);
  };
  run({.name = size_name(bytes) + ", " + std::to_string(replicas) + " replicas: " + path,
       .ours = [&] { run_all(small); },
       .theirs = [&] { run_all(slices); },
       .times = kTimes,
       .limit = 1 / 1.1});
}

}  // namespace

void all_reduces() {
  std::printf("%-44s %13s %13s\n", "", "cohort", "plain threads");
  for (const size_t replicas : {2, 4}) {
    for (const int64_t bytes : {4ll << 10, 64ll << 10, 1ll << 20, 16ll << 20, 100ll << 20}) {
      bench_all_reduce(replicas, bytes);
    }
  }
  std::printf("%-44s %13s %13s\n", "", "small values", "slices");
  bench_small(2, 512, "inline over slices");
  if (internal::core_count() >= 4) return;  // no replicas share a core, so that none adds for all
  for (const int64_t bytes : {4 << 10, 16 << 10}) bench_small(4, bytes, "last adds over slices");
}

}  // namespace cohort::bench
