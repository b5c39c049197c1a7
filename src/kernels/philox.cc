// Justified by the same row as kernels/random_values.cc.

#include "kernels/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/machine.h"

namespace cohort::internal {
namespace {

void write_blocks(uint64_t key, uint64_t first, int64_t blocks, uint32_t* words) {
  for (int64_t i = 0; i < blocks; ++i) {
    const auto number = first + static_cast<uint64_t>(i);
    const PhiloxBlock block = philox(key, number, PhiloxSequence::Draw);
    for (size_t j = 0; j < block.size(); ++j) words[4 * i + static_cast<int64_t>(j)] = block[j];
  }
}

#if defined(__x86_64__)

// Four blocks, one in each 64-bit lane. Only the low halves of the lanes mean something: the
// multiplication ignores the high ones.
struct FourBlocks {
  __m256i a, b, c, d;
};

[[gnu::target("avx2"), gnu::always_inline]] inline void wide_round(PhiloxKey key, FourBlocks& x) {
  const __m256i from_a = _mm256_mul_epu32(x.a, _mm256_set1_epi64x(kPhiloxMultiplierA));
  const __m256i from_c = _mm256_mul_epu32(x.c, _mm256_set1_epi64x(kPhiloxMultiplierC));
  const __m256i low = _mm256_set1_epi64x(key.low);
  const __m256i high = _mm256_set1_epi64x(key.high);
  x.a = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(from_c, 32), x.b), low);
  x.c = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(from_a, 32), x.d), high);
  x.b = from_c;
  x.d = from_a;
}

[[gnu::target("avx2"), gnu::always_inline]] inline FourBlocks counters_from(uint64_t number) {
  const __m256i numbers = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(number)),
                                           _mm256_setr_epi64x(0, 1, 2, 3));
  return {numbers, _mm256_srli_epi64(numbers, 32), _mm256_setzero_si256(), _mm256_setzero_si256()};
}

[[gnu::target("avx2"), gnu::always_inline]] inline void store(const FourBlocks& x,
                                                              uint32_t* words) {
  // Even 32-bit elements are those of the first, odd ones those of the second.
  const __m256i ab = _mm256_blend_epi32(x.a, _mm256_slli_epi64(x.b, 32), 0b10101010);
  const __m256i cd = _mm256_blend_epi32(x.c, _mm256_slli_epi64(x.d, 32), 0b10101010);
  const __m256i even = _mm256_unpacklo_epi64(ab, cd);  // blocks 0 and 2
  const __m256i odd = _mm256_unpackhi_epi64(ab, cd);   // blocks 1 and 3
  auto* out = reinterpret_cast<__m256i*>(words);
  _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

// Two groups of four at a time, because each round waits for the one before it.
[[gnu::target("avx2")]] int64_t write_blocks_avx2(uint64_t key, uint64_t first, int64_t blocks,
                                                  uint32_t* words) {
  int64_t done = 0;
  for (; done + 8 <= blocks; done += 8) {
    FourBlocks x = counters_from(first + static_cast<uint64_t>(done));
    FourBlocks y = counters_from(first + static_cast<uint64_t>(done) + 4);
    PhiloxKey round_key(key);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      wide_round(round_key, x);
      wide_round(round_key, y);
      round_key.advance();
    }
    store(x, words + 4 * done);
    store(y, words + 4 * done + 16);
  }
  return done;
}

#endif

}  // namespace

void philox_words(uint64_t key, uint64_t first, int64_t blocks, uint32_t* words) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (has_avx2()) done = write_blocks_avx2(key, first, blocks, words);
#endif
  write_blocks(key, first + static_cast<uint64_t>(done), blocks - done, words + 4 * done);
}

}  // namespace cohort::internal
