#pragma once

#include <vector>

#include "tensor/memory.h"

namespace cohort::internal {

// Memory for results, used again once nobody holds what was handed out: making a small tensor takes
// longer than a small reduction, and fresh memory costs more to touch than a large one takes. Not
// for two threads at the same time.
class ResultMemory {
 public:
  // Arbitrary content, which the caller may write until it hands the tensor out.
  WritableTensor take(DType dtype, const Shape& shape);

 private:
  static constexpr size_t kMostKept = 4;
  static constexpr int64_t kMostBytes = int64_t{32} << 20;  // of one; larger ones are not kept

  std::vector<WritableTensor> kept_;  // used last comes last
};

}  // namespace cohort::internal
