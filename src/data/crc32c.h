#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::data::internal {

// The checksum of iSCSI and of TFRecord files.
uint32_t crc32c(std::string_view bytes);
// As TFRecord files store it: rotated and shifted, since checksums of checksums are weak.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace cohort::data::internal
