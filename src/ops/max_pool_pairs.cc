#include "ops/max_pool_pairs.h"

#include <algorithm>
#include <limits>

#include "base/instruction_set.h"
#include "base/raise.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace cohort::internal {
namespace {

// Some windows that lie side by side: the first elements of both their rows, and the index of the
// first one.
struct Windows {
  const float* upper;
  const float* lower;
  int32_t row_length;
  int64_t index;
};

// One of the four elements of each window, and how far it is from where its window begins.
template <typename Values, typename Offsets>
struct Best {
  Values values;
  Offsets offsets;

  // NaN is better than all, the last one best.
  [[gnu::target("avx2"), gnu::always_inline]] void consider(const Values& others, int32_t offset) {
    const Offsets better = (others > values) | (others != others);
    values = better ? others : values;
    offsets = better ? Offsets{} + offset : offsets;
  }
};

using Eight [[gnu::vector_size(32)]] = float;
using EightOffsets [[gnu::vector_size(32)]] = int32_t;
using Four [[gnu::vector_size(16)]] = float;
using FourOffsets [[gnu::vector_size(16)]] = int32_t;

[[gnu::target("avx2"), gnu::always_inline]] inline void pool_eight(const Windows& windows,
                                                                   float* values,
                                                                   int64_t* indices) {
  constexpr EightOffsets kEven = {0, 2, 4, 6, 8, 10, 12, 14};
  constexpr EightOffsets kOdd = {1, 3, 5, 7, 9, 11, 13, 15};
  const Eight upper[] = {_mm256_loadu_ps(windows.upper), _mm256_loadu_ps(windows.upper + 8)};
  const Eight lower[] = {_mm256_loadu_ps(windows.lower), _mm256_loadu_ps(windows.lower + 8)};
  Best<Eight, EightOffsets> best{__builtin_shuffle(upper[0], upper[1], kEven), {}};
  best.consider(__builtin_shuffle(upper[0], upper[1], kOdd), 1);
  best.consider(__builtin_shuffle(lower[0], lower[1], kEven), windows.row_length);
  best.consider(__builtin_shuffle(lower[0], lower[1], kOdd), windows.row_length + 1);
  _mm256_storeu_ps(values, best.values);
  const auto offsets = reinterpret_cast<__m256i>(best.offsets);
  const __m256i first =
      _mm256_add_epi64(_mm256_set1_epi64x(windows.index), _mm256_set_epi64x(6, 4, 2, 0));
  const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(offsets));
  const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(offsets, 1));
  auto* to = reinterpret_cast<__m256i*>(indices);
  _mm256_storeu_si256(to, _mm256_add_epi64(first, low));
  _mm256_storeu_si256(to + 1,
                      _mm256_add_epi64(first, _mm256_add_epi64(high, _mm256_set1_epi64x(8))));
}

[[gnu::target("avx2"), gnu::always_inline]] inline void pool_four(const Windows& windows,
                                                                  float* values, int64_t* indices) {
  constexpr FourOffsets kEven = {0, 2, 4, 6};
  constexpr FourOffsets kOdd = {1, 3, 5, 7};
  const Four upper[] = {_mm_loadu_ps(windows.upper), _mm_loadu_ps(windows.upper + 4)};
  const Four lower[] = {_mm_loadu_ps(windows.lower), _mm_loadu_ps(windows.lower + 4)};
  Best<Four, FourOffsets> best{__builtin_shuffle(upper[0], upper[1], kEven), {}};
  best.consider(__builtin_shuffle(upper[0], upper[1], kOdd), 1);
  best.consider(__builtin_shuffle(lower[0], lower[1], kEven), windows.row_length);
  best.consider(__builtin_shuffle(lower[0], lower[1], kOdd), windows.row_length + 1);
  _mm_storeu_ps(values, best.values);
  const __m256i first =
      _mm256_add_epi64(_mm256_set1_epi64x(windows.index), _mm256_set_epi64x(6, 4, 2, 0));
  const __m256i offsets = _mm256_cvtepi32_epi64(reinterpret_cast<__m128i>(best.offsets));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices), _mm256_add_epi64(first, offsets));
}

// Always as many at once: the last ones of a row may have been dealt with before.
[[gnu::target("avx2")]] void pool_row(const Windows& row, int64_t count, float* values,
                                      int64_t* indices) {
  const int64_t at_once = count >= 8 ? 8 : 4;
  const int64_t last = count - at_once;
  for (int64_t at = 0;; at = std::min(at + at_once, last)) {
    const Windows windows{row.upper + 2 * at, row.lower + 2 * at, row.row_length,
                          row.index + 2 * at};
    at_once == 8 ? pool_eight(windows, values + at, indices + at)
                 : pool_four(windows, values + at, indices + at);
    if (at == last) return;
  }
}

}  // namespace

bool can_pool_pairs(const PoolPlan& plan) {
  constexpr PoolPlan::Sides kPair = {2, 2};
  return has_avx2() && plan.size == kPair && plan.stride == kPair &&
         plan.before == PoolPlan::Sides{0, 0} && plan.output[0] * 2 <= plan.plane[0] &&
         plan.output[1] * 2 <= plan.plane[1] && plan.output[1] >= 4 &&
         plan.row_length < std::numeric_limits<int32_t>::max();
}

void max_pool_pairs(const PoolPlan& plan, int64_t planes, const float* x, float* values,
                    int64_t* indices) {
  const int64_t width = plan.plane[1];
  for (int64_t i = 0; i < planes * plan.output[0]; ++i) {
    const int64_t y = i % plan.output[0] * 2;
    const float* const upper = x + (i / plan.output[0] * plan.plane[0] + y) * width;
    const Windows row{upper, upper + width, static_cast<int32_t>(plan.row_length),
                      y * plan.row_length};
    pool_row(row, plan.output[1], values + i * plan.output[1], indices + i * plan.output[1]);
  }
}

}  // namespace cohort::internal

#else

namespace cohort::internal {

bool can_pool_pairs(const PoolPlan&) { return false; }
void max_pool_pairs(const PoolPlan&, int64_t, const float*, float*, int64_t*) {
  raise(Code::Internal, "[MaxPool2d] can_pool_pairs() said no");
}

}  // namespace cohort::internal

#endif
