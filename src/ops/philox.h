#pragma once

#include <array>
#include <cstdint>

// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3",
// 2011): a function from a 64-bit key and a 128-bit counter to 128 random bits.
namespace cohort::internal {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox(uint64_t key, PhiloxBlock counter) {
  constexpr uint64_t kMultiplyFirst = 0xD2511F53;
  constexpr uint64_t kMultiplyThird = 0xCD9E8D57;
  constexpr uint32_t kWeylLow = 0x9E3779B9;
  constexpr uint32_t kWeylHigh = 0xBB67AE85;
  auto low = static_cast<uint32_t>(key);
  auto high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = kMultiplyFirst * counter[0];
    const uint64_t third = kMultiplyThird * counter[2];
    counter = {static_cast<uint32_t>(third >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(third),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ high,
               static_cast<uint32_t>(first)};
    low += kWeylLow;
    high += kWeylHigh;
  }
  return counter;
}

// Block `number` of one of 2^64 sequences that belong to a key.
constexpr PhiloxBlock philox(uint64_t key, uint64_t number, uint64_t sequence) {
  return philox(
      key, PhiloxBlock{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                       static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)});
}

// Half 0 or 1 of a block.
constexpr uint64_t philox_half(const PhiloxBlock& block, int half) {
  return block[2 * half] | (uint64_t{block[2 * half + 1]} << 32);
}

// The sequences in use. Retries of a draw take Retry and those after it.
enum class PhiloxSequence : uint64_t { Draw = 0, Split = 1, Retry = 2 };

constexpr PhiloxBlock philox(uint64_t key, uint64_t number, PhiloxSequence sequence) {
  return philox(key, number, static_cast<uint64_t>(sequence));
}

}  // namespace cohort::internal
