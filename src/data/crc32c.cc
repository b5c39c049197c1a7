#include "data/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace cohort::data::internal {

uint32_t extend_crc32c(uint32_t crc, std::string_view bytes) {
  constexpr size_t kMaxBytes = 1 << 30;  // crc32_iscsi() takes an int
  crc = ~crc;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMaxBytes);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes.remove_prefix(part.size());
  }
  return ~crc;
}

uint32_t crc32c(std::string_view bytes) { return extend_crc32c(0, bytes); }

uint32_t mask_crc32c(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8; }

}  // namespace cohort::data::internal
