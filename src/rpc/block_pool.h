#pragma once

#include <cstddef>
#include <memory>

namespace cohort::internal {

// Memory for what arrives, aligned to 64 bytes. Large blocks are kept when they are let go of and
// used again: fresh pages cost more than copying into old ones. Thread-safe.
class BlockPool {
 public:
  // Keeps at most that many bytes that nobody uses.
  explicit BlockPool(size_t kept_bytes);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();  // may happen before the blocks' end

  // ResourceExhausted when there is no memory.
  std::shared_ptr<std::byte> allocate(size_t size);

 private:
  class Shelf;
  std::shared_ptr<Shelf> shelf_;  // shared with the blocks
};

}  // namespace cohort::internal
