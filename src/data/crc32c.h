#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::data::internal {

// Returns the CRC-32C checksum, which iSCSI and TFRecord files use.
uint32_t crc32c(std::string_view bytes);
// Returns the checksum of the bytes with checksum `crc` followed by `bytes`. No bytes have checksum
// 0.
uint32_t extend_crc32c(uint32_t crc, std::string_view bytes);
// Returns the checksum as TFRecord files store it: rotated and shifted, because the checksum of
// data that contains checksums is weak.
uint32_t mask_crc32c(uint32_t crc);
inline uint32_t masked_crc32c(std::string_view bytes) { return mask_crc32c(crc32c(bytes)); }

}  // namespace cohort::data::internal
