#pragma once

#include <memory>
#include <vector>

#include "distribute/merge_point.h"
#include "distribute/replica_call.h"
#include "distribute/result_pool.h"
#include "tensor/body.h"

namespace cohort::internal {

// Borders between slices, and the places where tensors begin, keep apart what caches keep together.
inline constexpr int64_t kCacheLine = 64;

// What a tensor takes, up to where the next one may begin.
int64_t padded_bytes(DType dtype, const Shape& shape);

// One of a replica's values.
struct Source {
  size_t place;  // in the list of values
  const std::byte* data;
  const TensorBody* body;
};

// A replica's call of all_reduce as the others see it: everything they need in one place, worked
// out beforehand.
struct ReplicaPart : ReplicaCall {
  // Undefined values are left out: fine when all replicas leave out the same.
  explicit ReplicaPart(const ReplicaCall& call);

  uint64_t signature = 0;  // of op, dtypes, shapes, what for; 0: not dense numbers
  int64_t bytes = 0;       // of the values, and of the results
  int64_t result_bytes = 0;
  std::vector<Source> sources = {};  // the values that are defined
  std::shared_ptr<SharedResults> results_memory = nullptr;

  // Values of few bytes travel in letters: copying more costs more than a meeting.
  bool is_mailed() const { return bytes <= static_cast<int64_t>(MergePoint::Letter::kMaxBytes); }
  // Results of fewer bytes are added up by each replica for itself.
  bool is_shared() const { return result_bytes >= (4 << 10); }
  // Of the results.
  Specs specs() const;
};

}  // namespace cohort::internal
