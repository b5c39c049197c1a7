#pragma once

#include <cstdint>

namespace cohort::internal {

// The first byte of a chunk. After Begin follow, as 8 bytes each: the length of the header, the
// number of payloads, the length of each; then the header and the beginning of the payloads.
enum class ChunkKind : uint8_t { Begin = 1, More = 2, Close = 3 };

}  // namespace cohort::internal
