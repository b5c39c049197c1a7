#include "collectives/result_memory.h"

#include <algorithm>

#include "tensor/body.h"

namespace cohort::internal {
namespace {

int64_t bytes_of(const WritableTensor& one) {
  const TensorBody& known = body(one.tensor);
  return known.shape.num_elements() * size_of(known.dtype);
}

}  // namespace

WritableTensor ResultMemory::take(DType dtype, const Shape& shape) {
  const Device* const device = &value_device();
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const WritableTensor& one) {
    const TensorBody& known = body(one.tensor);
    return known.dtype == dtype && known.device == device && known.shape == shape &&
           is_held_here_only(one.tensor, 1);
  });
  if (found != kept_.rend()) {
    std::rotate(found.base() - 1, found.base(), kept_.end());
    return kept_.back();
  }
  const int64_t bytes = shape.num_elements() * size_of(dtype);
  if (bytes > kMaxBytes) return allocate_tensor(dtype, shape);
  make_room(bytes);
  kept_bytes_ += bytes;
  return kept_.emplace_back(allocate_tensor(dtype, shape));
}

void ResultMemory::make_room(int64_t bytes) {
  while (kept_.size() == kMaxKept || (!kept_.empty() && kept_bytes_ + bytes > kMaxBytes)) {
    kept_bytes_ -= bytes_of(kept_.front());
    kept_.erase(kept_.begin());
  }
}

}  // namespace cohort::internal
