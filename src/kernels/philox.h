#pragma once

#include <array>
#include <cstdint>

// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3",
// 2011): a function from a 64-bit key and a 128-bit counter to 128 random bits.
namespace cohort::internal {

using PhiloxBlock = std::array<uint32_t, 4>;

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint64_t kPhiloxMultiplierA = 0xD2511F53;
inline constexpr uint64_t kPhiloxMultiplierC = 0xCD9E8D57;

// The key of one round after the other.
struct PhiloxKey {
  uint32_t low;
  uint32_t high;

  constexpr explicit PhiloxKey(uint64_t key)
      : low(static_cast<uint32_t>(key)), high(static_cast<uint32_t>(key >> 32)) {}
  constexpr void advance() {
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
};

constexpr void philox_round(PhiloxKey key, uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  const uint64_t from_a = kPhiloxMultiplierA * a;
  const uint64_t from_c = kPhiloxMultiplierC * c;
  a = static_cast<uint32_t>(from_c >> 32) ^ b ^ key.low;
  b = static_cast<uint32_t>(from_c);
  c = static_cast<uint32_t>(from_a >> 32) ^ d ^ key.high;
  d = static_cast<uint32_t>(from_a);
}

constexpr PhiloxBlock philox(uint64_t key, PhiloxBlock counter) {
  PhiloxKey round_key(key);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(round_key, counter[0], counter[1], counter[2], counter[3]);
    round_key.advance();
  }
  return counter;
}

// The sequences of a key that are in use. Retries of a draw take Retry and those after it. Call and
// Run give the keys of a graph's further calls and runs.
enum class PhiloxSequence : uint64_t { Draw = 0, Split = 1, Retry = 2, Call = ~1ull, Run = ~0ull };

// Block `number` of one of 2^64 sequences that belong to a key.
constexpr PhiloxBlock philox(uint64_t key, uint64_t number, uint64_t sequence) {
  return philox(
      key, PhiloxBlock{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                       static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)});
}
constexpr PhiloxBlock philox(uint64_t key, uint64_t number, PhiloxSequence sequence) {
  return philox(key, number, static_cast<uint64_t>(sequence));
}

// Half 0 or 1 of a block.
constexpr uint64_t philox_half(const PhiloxBlock& block, int half) {
  return block[2 * half] | (uint64_t{block[2 * half + 1]} << 32);
}

// Blocks `first`, `first` + 1, ... of the sequence Draw, four words each: many at once, and fast.
void philox_words(uint64_t key, uint64_t first, int64_t blocks, uint32_t* words);

}  // namespace cohort::internal
