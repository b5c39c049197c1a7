#include "rpc/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr size_t kAlignment = 64;
// Smaller ones are the C library's business.
constexpr size_t kLargeBytes = size_t{1} << 20;
constexpr size_t kPageBytes = size_t{2} << 20;  // a huge page

[[noreturn]] void raise_no_memory(size_t size) {
  raise(Code::ResourceExhausted, "[Connection] no memory for a payload of {} bytes", size);
}

std::shared_ptr<std::byte> allocate_small(size_t size) {
  auto* const memory = static_cast<std::byte*>(
      ::operator new(std::max<size_t>(size, 1), std::align_val_t(kAlignment), std::nothrow));
  if (memory == nullptr) raise_no_memory(size);
  return {memory, [](std::byte* from) { ::operator delete(from, std::align_val_t(kAlignment)); }};
}

std::byte* map(size_t size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) raise_no_memory(size);
  madvise(memory, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

// The blocks that nobody uses, by size.
class BlockPool::Shelf {
 public:
  explicit Shelf(size_t limit) : limit_(limit) {}
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;
  ~Shelf() {
    for (const auto& [size, block] : blocks_) munmap(block, size);
  }

  // A block of at least, and not much more than, `size`; null when there is none.
  std::byte* take(size_t& size) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.lower_bound(size);
    if (found == blocks_.end() || found->first > 2 * size) return nullptr;
    size = found->first;
    std::byte* const block = found->second;
    blocks_.erase(found);
    bytes_ -= size;
    return block;
  }
  void put_back(std::byte* block, size_t size) {
    {
      const std::lock_guard lock(mutex_);
      if (bytes_ + size <= limit_) {
        blocks_.emplace(size, block);
        bytes_ += size;
        return;
      }
    }
    munmap(block, size);
  }

 private:
  const size_t limit_;
  std::mutex mutex_;
  std::multimap<size_t, std::byte*> blocks_;  // guarded by mutex_
  size_t bytes_ = 0;                          // guarded by mutex_
};

BlockPool::BlockPool(size_t kept_bytes) : shelf_(std::make_shared<Shelf>(kept_bytes)) {}
BlockPool::~BlockPool() = default;

std::shared_ptr<std::byte> BlockPool::allocate(size_t size) {
  if (size < kLargeBytes) return allocate_small(size);
  if (size > SIZE_MAX - kPageBytes) raise_no_memory(size);
  size_t mapped = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::byte* block = shelf_->take(mapped);
  if (block == nullptr) block = map(mapped);
  return {block, [shelf = shelf_, mapped](std::byte* from) { shelf->put_back(from, mapped); }};
}

}  // namespace cohort::internal
