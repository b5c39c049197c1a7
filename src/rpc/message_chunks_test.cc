#include "rpc/message_chunks.h"

#include <cstring>

#include "support/expect_error.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

using Piece = MessageAssembler::Piece;

std::string joined(const std::vector<Buffer>& chunk) {
  std::string all;
  for (const Buffer& piece : chunk) {
    all.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
  }
  return all;
}

MessageAssembler::Arrived add(MessageAssembler& assembler, std::string_view chunk) {
  const Piece piece = std::as_bytes(std::span(chunk));
  return assembler.add({&piece, 1});
}

// A chunk that begins a message: the numbers, then more bytes.
std::string begin_chunk(const std::vector<uint64_t>& numbers, const std::string& rest = "") {
  std::string chunk(1, static_cast<char>(ChunkKind::Begin));
  for (const uint64_t number : numbers) {
    chunk.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return chunk + rest;
}

TEST(Chunks, ASmallMessageIsOneChunk) {
  MessageCutter cutter(test_message("header", {10, 0, 2000}));
  const std::string chunk = joined(cutter.next());
  EXPECT_TRUE(cutter.at_end());
  MessageAssembler assembler;
  const auto arrived = add(assembler, chunk);
  ASSERT_TRUE(arrived.message);
  expect_message(*arrived.message, "header", {10, 0, 2000});
}

TEST(Chunks, RefersToTheMemoryOfLargePayloads) {
  Message message = test_message("x", {100'000});
  const std::byte* const memory = message.payloads[0].bytes.data();
  MessageCutter cutter(std::move(message));
  EXPECT_EQ(cutter.next()[1].bytes.data(), memory);
}

TEST(Chunks, MessagesOfAnySizesComeTogetherAgain) {
  const std::vector<std::vector<size_t>> cases{{},
                                               {0},
                                               {0, 0, 0},
                                               {kChunkBytes},
                                               {5, kChunkBytes * 3 + 1, 0, 7, kChunkBytes - 1},
                                               std::vector<size_t>(3000, 500),
                                               {0, 1, 0},
                                               {1, 0, 0}};
  MessageAssembler assembler;
  for (const auto& sizes : cases) {
    for (const size_t header : {size_t{0}, size_t{3}, 2 * kChunkBytes}) {
      MessageCutter cutter(test_message(std::string(header, 'h'), sizes));
      std::optional<Message> message;
      while (!cutter.at_end()) {
        EXPECT_FALSE(message);
        const std::string chunk = joined(cutter.next());
        EXPECT_LE(chunk.size(), kMaxChunkBytes);
        message = add(assembler, chunk).message;
      }
      ASSERT_TRUE(message);
      expect_message(*message, std::string(header, 'h'), sizes);
    }
  }
}

TEST(Chunks, MayLieInPieces) {
  MessageCutter cutter(test_message("header", {100, 3, 70}));
  const std::string chunk = joined(cutter.next());
  for (const size_t length : {1, 2, 7, 64}) {
    std::vector<Piece> pieces;
    for (size_t at = 0; at < chunk.size(); at += length) {
      pieces.push_back(
          std::as_bytes(std::span(chunk)).subspan(at, std::min(length, chunk.size() - at)));
      pieces.emplace_back();
    }
    MessageAssembler assembler;
    const auto arrived = assembler.add(pieces);
    ASSERT_TRUE(arrived.message);
    expect_message(*arrived.message, "header", {100, 3, 70});
  }
}

TEST(Chunks, TheEndCarriesItsReason) {
  const Buffer chunk = close_chunk({Code::Aborted, "[Test] why"}, "/job:worker/task:0");
  MessageAssembler assembler;
  const auto arrived = assembler.add({&chunk.bytes, 1});
  ASSERT_TRUE(arrived.closed);
  EXPECT_EQ(arrived.closed->code, Code::Aborted);
  EXPECT_EQ(arrived.closed->message, "[Test] why");
  EXPECT_EQ(arrived.closed->origin, "/job:worker/task:0");
}

TEST(Chunks, NonsenseIsRefusedAndTakesNoMemory) {
  const uint64_t huge = uint64_t{1} << 62;
  const std::pair<std::string, std::string> cases[] = {
      {"", "too short"},
      {std::string(1, '\x09'), "no known kind"},
      {std::string(1, '\x02') + "x", "continues nothing"},
      {begin_chunk({5}), "too short"},
      {begin_chunk({huge, 0}), "header is too long"},
      {begin_chunk({0, huge}), "table of payloads is too long"},
      {begin_chunk({0, 1000, 1, 2}), "table of payloads is too long"},
      {begin_chunk({0, 2, huge, huge}), "it is too long"},
      {begin_chunk({0, 4, huge, huge, huge, huge}), "it is too long"},
      {begin_chunk({0, 0}, "more"), "a chunk is too long"},
      {begin_chunk({1, 1, 2}, "h12+"), "a chunk is too long"},
      {std::string(1, '\x03'), "why a connection ends"},
  };
  for (const auto& [chunk, problem] : cases) {
    MessageAssembler assembler;
    EXPECT_ERROR(Code::DataLoss, problem, add(assembler, chunk));
  }
  MessageAssembler assembler;
  EXPECT_FALSE(add(assembler, begin_chunk({0, 1, 10}, "12345")).message);
  EXPECT_ERROR(Code::DataLoss, "before the last one is complete",
               add(assembler, begin_chunk({0, 0})));
}

TEST(Chunks, AnAnnouncedPayloadTakesMemoryOnlyWhenItComes) {
  MessageAssembler assembler;
  const uint64_t terabyte = uint64_t{1} << 40;
  EXPECT_FALSE(add(assembler, begin_chunk({0, 2, 100, terabyte}, "x")).message);
}

TEST(Chunks, TooManyPayloadsAreRefusedBySender) {
  Message message;
  message.payloads.resize(kMaxPayloads + 1);
  EXPECT_ERROR(Code::ResourceExhausted, "at most", MessageCutter(std::move(message)));
}

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
