#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::data::internal {

// The checksum of iSCSI and of TFRecord files.
uint32_t crc32c(std::string_view bytes);
// The checksum of what gave `crc`, followed by `bytes`; 0 is that of nothing.
uint32_t extend_crc32c(uint32_t crc, std::string_view bytes);
// As TFRecord files store it: rotated and shifted, since checksums of checksums are weak.
uint32_t mask_crc32c(uint32_t crc);
inline uint32_t masked_crc32c(std::string_view bytes) { return mask_crc32c(crc32c(bytes)); }

}  // namespace cohort::data::internal
