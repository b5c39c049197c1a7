#include "rpc/block_pool.h"

#include <cstring>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

TEST(BlockPool, BlocksAreAlignedAndCanBeWritten) {
  BlockPool pool(64 * kMegabyte);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, kMegabyte, 5 * kMegabyte + 1}) {
    const auto block = pool.allocate(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0u);
    std::memset(block.get(), 1, size);
  }
}

TEST(BlockPool, LargeBlocksAreUsedAgain) {
  BlockPool pool(64 * kMegabyte);
  const std::byte* const first = pool.allocate(8 * kMegabyte).get();
  EXPECT_EQ(pool.allocate(7 * kMegabyte).get(), first);
  const auto in_use = pool.allocate(8 * kMegabyte);
  EXPECT_NE(pool.allocate(8 * kMegabyte), in_use);
}

TEST(BlockPool, ASmallNeedDoesNotTakeALargeBlock) {
  BlockPool pool(64 * kMegabyte);
  const std::byte* const first = pool.allocate(32 * kMegabyte).get();
  EXPECT_NE(pool.allocate(2 * kMegabyte).get(), first);
}

TEST(BlockPool, BlocksMayOutliveThePool) {
  std::shared_ptr<std::byte> block;
  {
    BlockPool pool(64 * kMegabyte);
    block = pool.allocate(3 * kMegabyte);
  }
  std::memset(block.get(), 1, 3 * kMegabyte);
}

TEST(BlockPool, TooMuchIsAnError) {
  BlockPool pool(64 * kMegabyte);
  EXPECT_ERROR(Code::ResourceExhausted, "no memory", pool.allocate(SIZE_MAX - 10));
  EXPECT_ERROR(Code::ResourceExhausted, "no memory", pool.allocate(SIZE_MAX / 2));
}

}  // namespace
}  // namespace cohort::internal
