#pragma once

#include <array>
#include <atomic>

#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort::internal {

// Elements in plain memory. `value` stays undefined; aten() makes a tensor of the kernel library's
// own when it is asked for one, which costs more than all the rest.
struct LateBody : NumericBody {
  const std::byte* bytes = nullptr;
  std::shared_ptr<const void> owner;  // of the bytes; null when they lie in the body
  mutable std::atomic<bool> is_made = false;
  mutable std::once_flag made_once;
  mutable at::Tensor made;
};

// What make_small() makes. Once the kernel library has a tensor of it, that one is the value.
struct SmallBody : LateBody {
  alignas(16) std::array<std::byte, kSmallBytes> own;
};

// The elements of a value that is such memory; null for all others.
const std::byte* plain_bytes(const NumericBody& body);

// What aten() gives for such a body.
const at::Tensor& made_value(const NumericBody& body);

}  // namespace cohort::internal
