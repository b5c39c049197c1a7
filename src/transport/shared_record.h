#pragma once

#include <cstdint>

namespace cohort::internal {

// What lies in the ring of a SharedDirection: how a message's image (message_image.h) travels.
struct SharedRecord {
  enum Kind : uint32_t {
    Inline = 1,    // the image follows in the ring
    Whole = 2,     // a block holds it
    Announce = 3,  // it follows in Parts
    Part = 4,      // a block holds the next bytes of the one announced
  };
  uint32_t kind = 0;
  uint32_t block = 0;      // Whole, Part: its number,
  uint64_t offset = 0;     // and place in the arena
  uint64_t size = 0;       // bytes of the image; of the part
  uint64_t meta_size = 0;  // of the image
};

// Up to here two short copies are cheaper than a block.
inline constexpr uint64_t kMaxInlineImage = 4096;

}  // namespace cohort::internal
