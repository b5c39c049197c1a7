#include "tensor/small_blocks.h"

#include <c10/core/CPUAllocator.h>

#include <cstdlib>

namespace cohort::internal {
namespace {

// In bytes. Nobody loads so little at once that its alignment matters.
constexpr size_t kSmall = 64;

class SmallBlocks : public at::Allocator {
 public:
  explicit SmallBlocks(at::Allocator& others) : others_(others) {}

  at::DataPtr allocate(size_t bytes) const override {
    void* const block = bytes > 0 && bytes <= kSmall ? std::malloc(bytes) : nullptr;
    if (block == nullptr) return others_.allocate(bytes);
    c10::profiledCPUMemoryReporter().New(block, bytes);
    return {block, block, others_.raw_deleter(), at::Device(at::DeviceType::CPU)};
  }
  // Both kinds are given back by free().
  at::DeleterFnPtr raw_deleter() const override { return others_.raw_deleter(); }

 private:
  at::Allocator& others_;
};

}  // namespace

void take_small_blocks_from_malloc() {
  static auto* const blocks = new SmallBlocks(*c10::GetDefaultCPUAllocator());  // never destroyed
  c10::SetCPUAllocator(blocks);
}

}  // namespace cohort::internal
