#pragma once

#include <array>
#include <atomic>

#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort::internal {

// What make_small() makes. `value` stays undefined; aten() makes a tensor of the kernel library's
// own when it is asked for one, and from then on that one is the value.
struct SmallBody : NumericBody {
  alignas(16) std::array<std::byte, kSmallBytes> bytes;
  mutable std::atomic<bool> is_made = false;
  mutable std::once_flag made_once;
  mutable at::Tensor made;
};

// The bytes of a value that lies in its body; null for all others.
const std::byte* small_bytes(const NumericBody& body);

// What aten() gives for such a body.
const at::Tensor& made_value(const NumericBody& body);

}  // namespace cohort::internal
