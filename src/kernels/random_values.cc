// Justified by `bench_strategies training`: each call of random::uniform() fills a whole batch.
// Blocks of random words are made eight at a time with AVX2, and one stretch of them stays in the
// first cache until its elements are made. Dropout masks: "dropout of 128 x 512" of
// `bench_foundation`, where one mixed number decides about two elements.

#include "kernels/random_values.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include "base/hash.h"
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

namespace {

// Rational approximations of M. J. Wichura, "Algorithm AS 241: the percentage points of the normal
// distribution" (1988). Coefficients from the constant term up.
using Coefficients = std::array<double, 8>;

// |p - 1/2| <= 0.425, in 0.180625 - (p - 1/2)^2
constexpr Coefficients kCentreOver = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                      1.9715909503065514427e3, 1.3731693765509461125e4,
                                      4.5921953931549871457e4, 6.7265770927008700853e4,
                                      3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr Coefficients kCentreUnder = {1.0,
                                       4.2313330701600911252e1,
                                       6.8718700749205790830e2,
                                       5.3941960214247511077e3,
                                       2.1213794301586595867e4,
                                       3.9307895800092710610e4,
                                       2.8729085735721942674e4,
                                       5.2264952788528545610e3};
// r = sqrt(-log of the tail's probability) <= 5, in r - 1.6
constexpr Coefficients kTailOver = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                    5.76949722146069140550e0,  3.64784832476320460504e0,
                                    1.27045825245236838258e0,  2.41780725177450611770e-1,
                                    2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr Coefficients kTailUnder = {1.0,
                                     2.05319162663775882187e0,
                                     1.67638483018380384940e0,
                                     6.89767334985100004550e-1,
                                     1.48103976427480074590e-1,
                                     1.51986665636164571966e-2,
                                     5.47593808499534494600e-4,
                                     1.05075007164441684324e-9};
// r > 5, in r - 5
constexpr Coefficients kFarOver = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                   1.78482653991729133580e0,  2.96560571828504891230e-1,
                                   2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                   2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr Coefficients kFarUnder = {1.0,
                                    5.99832206555887937690e-1,
                                    1.36929880922735805310e-1,
                                    1.48753612908506148525e-2,
                                    7.86869131145613259100e-4,
                                    1.84631831751005468180e-5,
                                    1.42151175831644588870e-7,
                                    2.04426310338993978564e-15};

inline double polynomial(const Coefficients& c, double x) {
  double value = c[7];
  for (int i = 6; i >= 0; --i) value = value * x + c[i];
  return value;
}

// |q| up to here is the centre, where no logarithm is needed: 85 of 100 values.
constexpr double kCentre = 0.425;

inline double centre(double q) {
  const double r = kCentre * kCentre - q * q;
  return q * polynomial(kCentreOver, r) / polynomial(kCentreUnder, r);
}

double tail(double p) {
  const bool lower = p < 0.5;
  const double r = std::sqrt(-std::log(lower ? p : 1 - p));
  const double x = r <= 5 ? polynomial(kTailOver, r - 1.6) / polynomial(kTailUnder, r - 1.6)
                          : polynomial(kFarOver, r - 5) / polynomial(kFarUnder, r - 5);
  return lower ? -x : x;
}

}  // namespace

// First the centre's formula for all, which the compiler vectorises, then the tails.
void normal_quantiles(double* p, int64_t count) {
  constexpr int64_t kStretch = 64;
  std::array<double, kStretch> given;
  for (int64_t first = 0; first < count; first += kStretch) {
    double* const x = p + first;
    const int64_t size = std::min(kStretch, count - first);
    std::copy_n(x, size, given.begin());
    for (int64_t i = 0; i < size; ++i) x[i] = centre(given[i] - 0.5);
    for (int64_t i = 0; i < size; ++i) {
      if (std::fabs(given[i] - 0.5) > kCentre) x[i] = tail(given[i]);
    }
  }
}

namespace {

// Word i, as wide as T.
template <typename T>
auto word_at(const uint32_t* words, int64_t i) {
  if constexpr (sizeof(T) == 8) {
    return words[2 * i] | (uint64_t{words[2 * i + 1]} << 32);
  } else {
    return words[i];
  }
}

// Calls make(words, first, count) for each stretch, which sets the `count` elements from `first` on
// from the words of their blocks.
template <typename T, typename Make>
void for_each_stretch(RandomKey key, int64_t begin, int64_t end, const Make& make) {
  constexpr int64_t kElements = random_stretch<T>();
  std::array<uint32_t, 4 * kStretchBlocks> words;
  for (int64_t first = begin; first < end; first += kElements) {
    const int64_t count = std::min(kElements, end - first);
    const int64_t blocks = (count + kPerBlock<T> - 1) / kPerBlock<T>;
    philox_words(key.seed, key.counter + static_cast<uint64_t>(first / kPerBlock<T>), blocks,
                 words.data());
    make(words.data(), first, count);
  }
}

// A number in [0, 1), as fine as T allows.
inline float unit(uint32_t word) {
  return static_cast<float>(static_cast<int>(word >> 8)) * 0x1p-24f;
}
inline double unit(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
}

// A probability in (0, 1).
inline double probability(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }
inline double probability(uint64_t word) {
  return (static_cast<double>(static_cast<int64_t>(word >> 12)) + 0.5) * 0x1p-52;
}

// A number below `bound`, each exactly as likely (D. Lemire, "Fast random integer generation in an
// interval", 2019). `word` is the first try; further tries come from sequences of their own, so
// that no element depends on another.
uint64_t bounded(RandomKey key, int64_t element, uint64_t word, uint64_t bound) {
  for (uint64_t attempt = static_cast<uint64_t>(PhiloxSequence::Retry);; ++attempt) {
    const auto product = static_cast<unsigned __int128>(word) * bound;
    const auto low = static_cast<uint64_t>(product);
    if (low >= bound || low >= -bound % bound) return static_cast<uint64_t>(product >> 64);
    const auto number = key.counter + static_cast<uint64_t>(element / 2);
    word = philox_half(philox(key.seed, number, attempt), static_cast<int>(element % 2));
  }
}

}  // namespace

template <typename T>
void fill_random(RandomKey key, const UniformValues<T>& of, int64_t begin, int64_t end, T* values) {
  for_each_stretch<T>(key, begin, end, [=](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      values[first + i] = std::min(of.low + unit(word_at<T>(words, i)) * of.width, of.last);
    }
  });
}

template <typename T>
void fill_random(RandomKey key, const NormalValues& of, int64_t begin, int64_t end, T* values) {
  for_each_stretch<T>(key, begin, end, [=](const uint32_t* words, int64_t first, int64_t count) {
    std::array<double, random_stretch<T>()> x;
    for (int64_t i = 0; i < count; ++i) {
      x[i] = of.cut + probability(word_at<T>(words, i)) * (1 - 2 * of.cut);
    }
    normal_quantiles(x.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      values[first + i] = static_cast<T>(of.mean + of.stddev * std::clamp(x[i], -of.most, of.most));
    }
  });
}

template void fill_random(RandomKey, const UniformValues<float>&, int64_t, int64_t, float*);
template void fill_random(RandomKey, const UniformValues<double>&, int64_t, int64_t, double*);
template void fill_random(RandomKey, const NormalValues&, int64_t, int64_t, float*);
template void fill_random(RandomKey, const NormalValues&, int64_t, int64_t, double*);

void fill_random(RandomKey key, const IntegerValues& of, int64_t begin, int64_t end,
                 int64_t* values) {
  for_each_stretch<int64_t>(
      key, begin, end, [=](const uint32_t* words, int64_t first, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const uint64_t word = word_at<int64_t>(words, i);
          values[first + i] =
              static_cast<int64_t>(of.low + bounded(key, first + i, word, of.bound));
        }
      });
}

template <typename T>
void fill_dropout_mask(const int64_t* key, double rate, int64_t count, T* mask) {
  const uint64_t start = mix64(static_cast<uint64_t>(key[0])) + static_cast<uint64_t>(key[1]);
  const auto dropped = static_cast<uint32_t>(rate * 4294967296.0);
  const T kept = static_cast<T>(1 / (1 - rate));
  for (int64_t i = 0; i < count; i += 2) {
    const uint64_t bits = mix64(start + static_cast<uint64_t>(i) * kSplitMixStep);
    mask[i] = static_cast<uint32_t>(bits) < dropped ? T(0) : kept;
    if (i + 1 < count) mask[i + 1] = static_cast<uint32_t>(bits >> 32) < dropped ? T(0) : kept;
  }
}

template void fill_dropout_mask(const int64_t*, double, int64_t, float*);
template void fill_dropout_mask(const int64_t*, double, int64_t, double*);

void shuffle_values(RandomKey key, int64_t count, int64_t* values) {
  for (int64_t i = count - 1; i > 0; --i) {  // Fisher and Yates
    const auto number = key.counter + static_cast<uint64_t>(i / 2);
    const PhiloxBlock words = philox(key.seed, number, PhiloxSequence::Draw);
    const uint64_t word = philox_half(words, static_cast<int>(i % 2));
    std::swap(values[i], values[bounded(key, i, word, static_cast<uint64_t>(i) + 1)]);
  }
}

}  // namespace cohort::internal
