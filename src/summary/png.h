#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cohort::internal {

// Rows of pixels, `channels` bytes each: 1 (grey), 3 (RGB) or 4 (RGBA).
struct Pixels {
  uint32_t height;
  uint32_t width;
  int channels;
  std::span<const uint8_t> bytes;
};

// The picture as a PNG file.
std::string encode_png(const Pixels& pixels);

}  // namespace cohort::internal
