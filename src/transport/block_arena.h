#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace cohort::internal {

// Who has which part of an arena: the sender's books, which the other process can not touch. Parts
// are taken from the front, so that memory that was used before is used again.
class BlockArena {
 public:
  struct Block {
    uint32_t number = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  static constexpr uint64_t kGranule = 4096;

  BlockArena(uint64_t bytes, uint32_t max_blocks);

  // `size` bytes in one piece, or nothing.
  std::optional<Block> allocate(uint64_t size);
  // As much as there is in one piece, between these; or nothing.
  std::optional<Block> allocate_some(uint64_t at_least, uint64_t at_most);
  // False when no block of that number is out.
  bool give_back(uint32_t number);

 private:
  using Gap = std::map<uint64_t, uint64_t>::iterator;
  Block take(Gap gap, uint64_t size);

  std::map<uint64_t, uint64_t> gaps_;  // offset to size; no two touch
  std::vector<Block> blocks_;          // by number; size 0: not out
  std::vector<uint32_t> free_numbers_;
};

}  // namespace cohort::internal
