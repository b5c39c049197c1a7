// The pieces that a shared-memory connection is made of.

#include <random>
#include <set>

#include "support/expect_error.h"
#include "support/message_log.h"
#include "transport/message_image.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {
namespace {

constexpr uint64_t kGranule = BlockArena::kGranule;

TEST(BlockArena, TakesFromTheFront) {
  BlockArena arena(10 * kGranule, 4);
  const auto first = arena.allocate(1);
  const auto second = arena.allocate(2 * kGranule);
  EXPECT_EQ(first->offset, 0u);
  EXPECT_EQ(second->offset, kGranule);
  EXPECT_TRUE(arena.give_back(first->number));
  EXPECT_EQ(arena.allocate(kGranule)->offset, 0u);
}

TEST(BlockArena, HasAsManyBlocksAsNumbers) {
  BlockArena arena(10 * kGranule, 2);
  ASSERT_TRUE(arena.allocate(1));
  ASSERT_TRUE(arena.allocate(1));
  EXPECT_FALSE(arena.allocate(1));
  EXPECT_FALSE(arena.allocate_some(1, 1));
}

TEST(BlockArena, GivesTheLargestPieceThereIs) {
  BlockArena arena(8 * kGranule, 8);
  std::vector<BlockArena::Block> all;
  for (int i = 0; i < 8; ++i) all.push_back(*arena.allocate(kGranule));
  for (const int i : {1, 4, 5}) arena.give_back(all[i].number);
  EXPECT_FALSE(arena.allocate(3 * kGranule));
  EXPECT_FALSE(arena.allocate_some(3 * kGranule, 5 * kGranule));
  const auto some = arena.allocate_some(kGranule, 5 * kGranule);
  EXPECT_EQ(some->offset, 4 * kGranule);
  EXPECT_EQ(some->size, 2 * kGranule);
}

TEST(BlockArena, KnowsWhatIsOut) {
  BlockArena arena(8 * kGranule, 8);
  EXPECT_FALSE(arena.give_back(0));
  EXPECT_FALSE(arena.give_back(8));
  const auto block = arena.allocate(1);
  EXPECT_TRUE(arena.give_back(block->number));
  EXPECT_FALSE(arena.give_back(block->number));
  EXPECT_FALSE(arena.allocate(UINT64_MAX));
}

TEST(BlockArena, BlocksNeverOverlapAndGapsJoin) {
  constexpr uint64_t kGranules = 100;
  BlockArena arena(kGranules * kGranule, 64);
  std::mt19937 random(7);
  std::vector<BlockArena::Block> out;
  std::set<uint64_t> used;
  const auto give_back = [&](size_t i) {
    for (uint64_t at = 0; at < out[i].size; at += kGranule) used.erase(out[i].offset + at);
    ASSERT_TRUE(arena.give_back(out[i].number));
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int round = 0; round < 5000; ++round) {
    if (const auto block = arena.allocate(random() % (12 * kGranule))) {
      for (uint64_t at = 0; at < block->size; at += kGranule) {
        ASSERT_TRUE(used.insert(block->offset + at).second);
      }
      out.push_back(*block);
    }
    if (!out.empty() && random() % 2 == 0) give_back(random() % out.size());
  }
  while (!out.empty()) give_back(0);
  EXPECT_TRUE(arena.allocate(kGranules * kGranule));
}

TEST(SharedRing, WrapsAround) {
  const SharedMapping mapping(size_t{64} << 10);
  RingWriter writer(mapping.direction(0));
  RingReader reader(mapping.direction(0));
  std::vector<std::byte> read;
  for (size_t i = 0; i < 1000; ++i) {
    const std::vector<std::byte> body(i * 37 % kMaxRecordBody, std::byte(i));
    ASSERT_TRUE(writer.has_room(body.size()));
    writer.write(body);
    ASSERT_TRUE(reader.has_record());
    ASSERT_TRUE(reader.read(read));
    ASSERT_EQ(read, body);
  }
  EXPECT_FALSE(reader.has_record());
  EXPECT_FALSE(reader.read(read));
}

TEST(SharedRing, HasNoRoomWhenFull) {
  const SharedMapping mapping(size_t{64} << 10);
  RingWriter writer(mapping.direction(0));
  RingReader reader(mapping.direction(0));
  const std::vector<std::byte> body(kMaxRecordBody);
  size_t written = 0;
  for (; writer.has_room(body.size()); ++written) writer.write(body);
  EXPECT_EQ(written, SharedDirection::kRingBytes / (kMaxRecordBody + 8));
  std::vector<std::byte> read;
  reader.read(read);
  EXPECT_TRUE(writer.has_room(body.size()));
}

TEST(MessageImage, CanBeCutAnywhere) {
  const Message message = test_message("header", {0, 1, 100, 64, 3, 0});
  const MessageImage image(message);
  const std::shared_ptr<std::byte> memory = allocate_payload(image.size());
  for (size_t at = 0; at < image.size(); at += 7) {
    image.copy_out(at, {memory.get() + at, std::min<size_t>(7, image.size() - at)});
  }
  const Buffer whole{{memory.get(), image.size()}, memory};
  const Message back = open_image(whole.bytes.first(image.meta_size()), whole);
  expect_message(back, "header", {0, 1, 100, 64, 3, 0});
}

TEST(CopyBytes, CopiesLargeMemoryFromAndToAnywhere) {
  constexpr size_t kSize = (size_t{5} << 20) + 11;
  const Buffer source = patterned_payload(kSize + 8, 1);
  std::vector<std::byte> target(kSize + 16);
  for (const size_t shift : {0, 1, 7}) {
    copy_bytes(target.data() + shift, source.bytes.data() + 8 - shift, kSize);
    EXPECT_EQ(std::memcmp(target.data() + shift, source.bytes.data() + 8 - shift, kSize), 0);
  }
}

}  // namespace
}  // namespace cohort::internal
