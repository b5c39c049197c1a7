#include <algorithm>
#include <array>

#include "base/log.h"
#include "collectives/dense.h"
#include "collectives/engine.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

constexpr std::array<size_t, 5> kSizes = {4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr int kTimes = 3;

Call next_call(CollectiveGroup& group, Call call, Deadline deadline) {
  call.number = group.next_number();
  call.deadline = deadline;
  return call;
}

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
