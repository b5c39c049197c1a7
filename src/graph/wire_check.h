#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::internal {

// The most that a serialized graph may take. They bound the memory that reading one needs.
inline constexpr int64_t kMaxDocumentBytes = int64_t{1} << 30;
inline constexpr int64_t kMaxStructureBytes = int64_t{1} << 27;  // all but tensors' contents
inline constexpr int64_t kMaxDocumentParts = int64_t{1} << 23;   // texts and messages, all levels

// Walks over the encoding of a Document without taking memory. Throws InvalidArgument when it is
// not one (damaged, a field that there is not, larger than the limits), and Unimplemented when it
// is in a format newer than `newest_format`.
void check_wire(std::string_view bytes, uint32_t newest_format);

}  // namespace cohort::internal
