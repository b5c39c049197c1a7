#pragma once

#include <array>
#include <cstdint>

namespace cohort::internal {

// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3",
// 2011): a function from a 64-bit key and a 128-bit counter to 128 random bits.
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

// Replaces each p, 0 < p < 1, by the x below which a standard normal variable lies with probability
// p. Exact to about 1e-16 of its size.
void normal_quantiles(double* p, int64_t count);

// Arrays of random numbers. Element i of an array depends on the key and on i only, so that threads
// may fill parts of one array: a part begins at a multiple of random_stretch<T>().

struct RandomKey {
  uint64_t seed;
  uint64_t counter;  // of the first block
};

// A stretch of elements is filled at a time, so that its random words stay in the nearest cache.
inline constexpr int64_t kStretchBlocks = 256;

// How many elements one block gives: four of 32 bits, or two of 64.
template <typename T>
inline constexpr int64_t kPerBlock = sizeof(T) == 8 ? 2 : 4;

template <typename T>
constexpr int64_t random_stretch() {
  return kStretchBlocks * kPerBlock<T>;
}

// Uniform in [low, high), as fine as T allows. `last` is the largest number less than `high`:
// rounding may reach `high`.
template <typename T>
struct UniformValues {
  T low;
  T width;  // high - low
  T last;
};

// mean + stddev * x. x is normal, given that it lies within -most and most; `cut` is the
// probability that a normal value lies beyond one end.
struct NormalValues {
  double mean;
  double stddev;
  double cut;
  double most;
};

// Integers from `low` to before `low` + `bound`, each exactly as likely.
struct IntegerValues {
  uint64_t low;
  uint64_t bound;
};

// Sets elements `begin` to `end` of the array `values`, floats being float or double.
template <typename T>
void fill_random(RandomKey key, const UniformValues<T>& of, int64_t begin, int64_t end, T* values);
template <typename T>
void fill_random(RandomKey key, const NormalValues& of, int64_t begin, int64_t end, T* values);
void fill_random(RandomKey key, const IntegerValues& of, int64_t begin, int64_t end,
                 int64_t* values);

// Sets `count` elements to 0 where they are dropped, which happens with probability `rate`, else to
// 1 / (1 - rate). Element i depends on the two numbers of the key and on i only. Of float and
// double.
template <typename T>
void fill_dropout_mask(const int64_t* key, double rate, int64_t count, T* mask);

// Puts `count` values into a random order, each order exactly as likely.
void shuffle_values(RandomKey key, int64_t count, int64_t* values);

}  // namespace cohort::internal
