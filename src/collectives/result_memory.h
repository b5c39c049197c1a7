#pragma once

#include <vector>

#include "tensor/memory.h"

namespace cohort::internal {

// Memory for results, used again once the program holds the old result no more: making a small
// tensor takes longer than a small reduction, and touching fresh memory longer than a large one.
// Not thread-safe.
class ResultMemory {
 public:
  // Arbitrary content, which the caller may write until it hands the tensor out.
  WritableTensor take(DType dtype, const Shape& shape);

 private:
  static constexpr size_t kMaxKept = 4;
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;  // of all; a larger one is not kept

  // Makes room for a tensor of that size: drops those that were used least recently.
  void make_room(int64_t bytes);

  std::vector<WritableTensor> kept_;  // used last comes last
  int64_t kept_bytes_ = 0;
};

}  // namespace cohort::internal
