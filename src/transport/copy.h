#pragma once

#include <cstddef>

namespace cohort::internal {

// memcpy for memory that another core reads next: what is larger than caches goes past them.
void copy_bytes(std::byte* to, const std::byte* from, size_t size);

}  // namespace cohort::internal
