// Justified by `bench_strategies training`: each call of random::uniform() fills a whole batch.
// Blocks of random words are made eight at a time with AVX2, and one stretch of them stays in the
// first cache until its elements are made.

#include "kernels/random_values.h"

#include <algorithm>
#include <array>

#include "kernels/normal_quantile.h"
#include "kernels/philox.h"

namespace cohort::internal {
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

template <typename T>
void fill_uniform(RandomKey key, const UniformValues<T>& of, int64_t begin, int64_t end,
                  T* values) {
  for_each_stretch<T>(key, begin, end, [=](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      values[first + i] = std::min(of.low + unit(word_at<T>(words, i)) * of.width, of.last);
    }
  });
}

// A probability in (0, 1).
inline double probability(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }
inline double probability(uint64_t word) {
  return (static_cast<double>(static_cast<int64_t>(word >> 12)) + 0.5) * 0x1p-52;
}

template <typename T>
void fill_normal(RandomKey key, const NormalValues& of, int64_t begin, int64_t end, T* values) {
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

void fill_random(RandomKey key, const UniformValues<float>& of, int64_t begin, int64_t end,
                 float* values) {
  fill_uniform(key, of, begin, end, values);
}
void fill_random(RandomKey key, const UniformValues<double>& of, int64_t begin, int64_t end,
                 double* values) {
  fill_uniform(key, of, begin, end, values);
}
void fill_random(RandomKey key, const NormalValues& of, int64_t begin, int64_t end, float* values) {
  fill_normal(key, of, begin, end, values);
}
void fill_random(RandomKey key, const NormalValues& of, int64_t begin, int64_t end,
                 double* values) {
  fill_normal(key, of, begin, end, values);
}

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

void shuffle_values(RandomKey key, int64_t count, int64_t* values) {
  for (int64_t i = count - 1; i > 0; --i) {  // Fisher and Yates
    const auto number = key.counter + static_cast<uint64_t>(i / 2);
    const PhiloxBlock words = philox(key.seed, number, PhiloxSequence::Draw);
    const uint64_t word = philox_half(words, static_cast<int>(i % 2));
    std::swap(values[i], values[bounded(key, i, word, static_cast<uint64_t>(i) + 1)]);
  }
}

}  // namespace cohort::internal
