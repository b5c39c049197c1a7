#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "distribute/merge_point.h"
#include "distribute/replica_call.h"
#include "distribute/result_pool.h"

namespace cohort::internal {

// The quickest all-reduce between replicas that are threads of this process: each adds up its slice
// of all values, in the order of the replicas, into memory that all of them share afterwards. What
// is small each adds up for itself, in the same order: so nobody waits for another one's memory.
// What is smaller still is copied into letters, and they meet only once. So they do where replicas
// share cores, and a second meeting would cost more than to let the last one who comes add up
// everything for all.
class ParallelAllReduce {
 public:
  explicit ParallelAllReduce(const std::vector<std::string>& devices);

  // In each replica, at the same time. Unless all values are dense numbers that agree, replica 0
  // calls `otherwise`, which sets everybody's results or says what is wrong.
  using Otherwise = std::function<void(const ReplicaCalls& calls)>;
  std::vector<Gradient> run(MergePoint& meeting, size_t replica, const ReplicaCall& call,
                            const Otherwise& otherwise);

 private:
  // The most bytes that one adds up for all: none where each replica has a core to itself, whose
  // cache keeps what it wrote the last time.
  static constexpr int64_t kMaxAtOnceCrowded = 16 << 10;

  const int64_t most_at_once_;
  ResultPool shared_;
  std::deque<ResultPool> private_;  // by replica
};

}  // namespace cohort::internal
