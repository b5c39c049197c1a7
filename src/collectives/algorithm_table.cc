#include <algorithm>
#include <array>
#include <cstdint>

#include "base/log.h"
#include "collectives/engine.h"
#include "collectives/tensor_collectives.h"
#include "tensor/memory.h"

namespace cohort::internal {

std::string_view name_of(Algorithm algorithm) {
  constexpr std::array<std::string_view, 5> kNames = {"everything", "slices", "doubling",
                                                      "halving-doubling", "ring"};
  return kNames[static_cast<size_t>(algorithm)];
}

Algorithm AlgorithmTable::choose(size_t bytes) const {
  for (const Row& row : rows) {
    if (bytes <= row.up_to_bytes) return row.algorithm;
  }
  return rows.back().algorithm;
}

AlgorithmTable default_table(Distance distance, int members) {
  constexpr size_t kKilobyte = 1024;
  constexpr size_t kAny = SIZE_MAX;
  switch (distance) {
    case Distance::SharedMemory:
      if (members <= 2) return {{{kAny, Algorithm::Everything}}};
      return {{{8 * kKilobyte, Algorithm::Everything}, {kAny, Algorithm::Slices}}};
    case Distance::SameHost:
      return {{{16 * kKilobyte, Algorithm::Doubling},
               {256 * kKilobyte, Algorithm::HalvingDoubling},
               {kAny, Algorithm::Ring}}};
    case Distance::Network:
      break;
  }
  return {{{8 * kKilobyte, Algorithm::Doubling},
           {1024 * kKilobyte, Algorithm::HalvingDoubling},
           {kAny, Algorithm::Ring}}};
}

std::vector<Algorithm> candidates(Distance distance) {
  if (distance == Distance::SharedMemory) return {Algorithm::Everything, Algorithm::Slices};
  return {Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring};
}

namespace {

constexpr std::array<size_t, 5> kSizes = {4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr int kTimes = 3;

// The shortest of some times, of the slowest member: the same number on all of them.
double seconds(CollectiveGroup& group, const Tensor& values, Deadline deadline) {
  double best = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    Call call = next_call(group, dense_call(CallKind::AllReduce, ReduceOp::Sum, values), deadline);
    const auto begin = std::chrono::steady_clock::now();
    all_reduce_dense(group, call, values);
    const auto end = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double>(end - begin).count());
  }
  const Tensor own(best);
  Call call = next_call(group, dense_call(CallKind::AllReduce, ReduceOp::Max, own), deadline);
  return all_reduce_dense(group, call, own).to<double>();
}

}  // namespace

void calibrate_group(CollectiveGroup& group, Deadline deadline) {
  Engine& engine = group.engine();
  AlgorithmTable measured;
  for (const size_t bytes : kSizes) {
    const WritableTensor values =
        allocate_tensor(kFloat32, {static_cast<int64_t>(bytes / sizeof(float))});
    std::fill_n(values.data, bytes, std::byte{0});
    AlgorithmTable::Row row{bytes, engine.table.choose(bytes)};
    double best = 1e9;
    for (const Algorithm algorithm : engine.algorithms()) {
      engine.table = {{{SIZE_MAX, algorithm}}};
      const double time = seconds(group, values.tensor, deadline);
      if (time < best) row.algorithm = algorithm;
      best = std::min(best, time);
    }
    log_info("[Calibrate] {} bytes: {}, {:.1f} us", bytes, name_of(row.algorithm), best * 1e6);
    measured.rows.push_back(row);
  }
  engine.table = measured;
}

}  // namespace cohort::internal
