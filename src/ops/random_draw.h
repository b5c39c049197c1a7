#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "ops/kernel.h"
#include "ops/philox.h"

// What the random ops have in common. Input 0 is the key; "shape" and "dtype" are attributes.
namespace cohort::internal {

inline constexpr std::string_view kDrawn = "its result is drawn at random";
inline constexpr DTypeSet kKeyType{1 << static_cast<int>(DType::Int64)};

struct Key {
  uint64_t seed;
  uint64_t counter;
};

Key key_of(const Kernel& k);

void check_key(const OpInputs& inputs);
// The key, the shape and that it fits into memory.
Specs infer_draw(const OpInputs& inputs);
at::Tensor empty_draw(const Kernel& k, DType dtype);

// How many elements of a dtype one block gives: four of 32 bits, or two of 64.
template <typename T>
inline constexpr int64_t kPerBlock = sizeof(T) == 8 ? 2 : 4;

// Word i, as wide as T.
template <typename T>
auto word_at(const uint32_t* words, int64_t i) {
  if constexpr (sizeof(T) == 8) {
    return words[2 * i] | (uint64_t{words[2 * i + 1]} << 32);
  } else {
    return words[i];
  }
}

inline constexpr int64_t kStretchBlocks = 256;

// Fills `out` by stretches whose words stay in the nearest cache: make(words, first, count) sets
// the `count` elements from `first` on from the words of their blocks.
template <typename T, typename Make>
void fill_stretches(Key key, const at::Tensor& out, Make make) {
  constexpr int64_t kPerTask = 32;
  constexpr int64_t kElements = kStretchBlocks * kPerBlock<T>;
  const int64_t stretches = (out.numel() + kElements - 1) / kElements;
  at::parallel_for(0, stretches, kPerTask, [&](int64_t begin, int64_t end) {
    std::array<uint32_t, 4 * kStretchBlocks> words;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t count = std::min(kElements, out.numel() - i * kElements);
      const int64_t blocks = (count + kPerBlock<T> - 1) / kPerBlock<T>;
      philox_words(key.seed, key.counter + static_cast<uint64_t>(i * kStretchBlocks), blocks,
                   words.data());
      make(words.data(), i * kElements, count);
    }
  });
}

}  // namespace cohort::internal
