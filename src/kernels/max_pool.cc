// Justified by "LeNet on 28x28, batch 128, step" of `bench_foundation`: the kernel library pools
// element by element with a branch for each, which took a quarter of that step.

#include "kernels/max_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <concepts>
#include <limits>
#include <vector>

#include "base/machine.h"

// Windows are pooled a row at a time: an element of each window is compared in whole vectors. The
// offset of the best element from the beginning of its window is kept, because it is one constant
// for all windows of the row.
namespace cohort::internal {
namespace {

template <typename T, typename Offset>
struct Job {
  const PoolPlan& plan;
  int64_t planes;
  const T* x;
  T* values;
  int64_t* indices;
};

// NaN is better than every number, and than an earlier NaN.
template <typename T>
[[gnu::always_inline]] inline bool is_better(T value, T best) {
  return (value > best) | (value != value);
}

// A row of windows, `stride` apart. `index` is that of the first element of the first window, which
// may be padding.
struct WindowRow {
  int64_t index;
  int64_t count;
  int64_t stride;
};

template <typename Offset>
[[gnu::always_inline]] inline void write_indices(const WindowRow& row, const Offset* offsets,
                                                 int64_t* indices) {
  const int64_t first = row.index;
  const int64_t stride = row.stride;
  const int64_t count = row.count;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) indices[i] = first + i * stride + offsets[i];
}

// Windows of kSize x kSize that lie side by side, inside the plane: `x` is where the first one
// begins.
template <int kSize, typename T, typename Offset>
[[gnu::always_inline]] inline void pool_side_by_side(const PoolPlan& plan, const T* x,
                                                     const WindowRow& row, T* values,
                                                     Offset* offsets) {
  const int64_t width = plan.plane[1];
  const auto row_length = static_cast<Offset>(plan.row_length);
  const int64_t count = row.count;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    T best = -std::numeric_limits<T>::infinity();
    Offset offset = 0;
#pragma GCC unroll 3
    for (int y = 0; y < kSize; ++y) {
#pragma GCC unroll 3
      for (int j = 0; j < kSize; ++j) {
        const T value = x[y * width + i * kSize + j];
        const bool better = is_better(value, best);
        best = better ? value : best;
        offset = better ? static_cast<Offset>(y) * row_length + j : offset;
      }
    }
    values[i] = best;
    offsets[i] = offset;
  }
}

// Which windows of a row have element `offset` of their columns inside the plane.
struct Covered {
  int64_t begin;
  int64_t end;
};
Covered covered_by(const PoolPlan& plan, int64_t offset) {
  const int64_t first = offset - plan.before[1];  // of window 0
  const int64_t stride = plan.stride[1];
  const int64_t begin = first >= 0 ? 0 : (stride - 1 - first) / stride;
  const int64_t end = first >= plan.plane[1] ? 0 : (plan.plane[1] - 1 - first) / stride + 1;
  return {begin, std::min(end, plan.output[1])};
}

// Window i has the element `column` + i * stride of the line, `offset` from where it begins.
template <typename T, typename Offset>
[[gnu::always_inline]] inline void compare(const T* line, int64_t column, int64_t stride,
                                           Covered windows, Offset offset, T* values,
                                           Offset* offsets) {
#pragma GCC ivdep
  for (int64_t i = windows.begin; i < windows.end; ++i) {
    const T value = line[column + i * stride];
    const bool better = is_better(value, values[i]);
    values[i] = better ? value : values[i];
    offsets[i] = better ? offset : offsets[i];
  }
}

// Nothing is larger than anything yet: the first element of each window that is not padding.
template <typename T, typename Offset>
void begin_row(const PoolPlan& plan, int64_t first_row, T* values, Offset* offsets) {
  for (int64_t i = 0; i < plan.output[1]; ++i) {
    const int64_t column = std::max<int64_t>(plan.before[1] - i * plan.stride[1], 0);
    values[i] = -std::numeric_limits<T>::infinity();
    offsets[i] = static_cast<Offset>(first_row * plan.row_length + column);
  }
}

// Windows of any kind, which begin in row `top` of plane `x`.
template <typename T, typename Offset>
[[gnu::always_inline]] inline void pool_any(const PoolPlan& plan, const Covered* covered,
                                            const T* x, int64_t top, T* values, Offset* offsets) {
  const int64_t first = std::max<int64_t>(-top, 0);
  const int64_t end = std::min(plan.size[0], plan.plane[0] - top);
  const int64_t stride = plan.stride[1];
  begin_row(plan, first, values, offsets);
  for (int64_t y = first; y < end; ++y) {
    const T* const line = x + (top + y) * plan.plane[1];
    for (int64_t j = 0; j < plan.size[1]; ++j) {
      const auto offset = static_cast<Offset>(y * plan.row_length + j);
      const int64_t column = j - plan.before[1];
      if (stride == 1) {
        compare(line, column, 1, covered[j], offset, values, offsets);
      } else {
        compare(line, column, stride, covered[j], offset, values, offsets);
      }
    }
  }
}

// 2 or 3 when the windows are of that size, side by side and without padding; else 0.
int64_t side_by_side(const PoolPlan& plan) {
  const int64_t size = plan.size[0];
  const PoolPlan::Sides all = {size, size};
  const bool inside =
      plan.output[0] * size <= plan.plane[0] && plan.output[1] * size <= plan.plane[1];
  const bool usual = (size == 2 || size == 3) && plan.size == all && plan.stride == all;
  return usual && inside && plan.before == PoolPlan::Sides{0, 0} ? size : 0;
}

template <typename T, typename Offset>
[[gnu::always_inline]] inline void pool_planes(Job<T, Offset> job) {
  const PoolPlan plan = job.plan;
  const int64_t usual_size = side_by_side(plan);
  std::vector<Covered> covered;
  for (int64_t j = 0; j < plan.size[1]; ++j) covered.push_back(covered_by(plan, j));
  std::vector<Offset> offsets(static_cast<size_t>(plan.output[1]));
  for (int64_t i = 0; i < job.planes * plan.output[0]; ++i) {
    const T* const x = job.x + i / plan.output[0] * plan.plane[0] * plan.plane[1];
    const int64_t top = i % plan.output[0] * plan.stride[0] - plan.before[0];
    const WindowRow row{.index = top * plan.row_length - plan.before[1],
                        .count = plan.output[1],
                        .stride = plan.stride[1]};
    T* const values = job.values + i * row.count;
    const T* const first = x + (usual_size == 0 ? 0 : top * plan.plane[1]);
    if (usual_size == 2) {
      pool_side_by_side<2>(plan, first, row, values, offsets.data());
    } else if (usual_size == 3) {
      pool_side_by_side<3>(plan, first, row, values, offsets.data());
    } else {
      pool_any(plan, covered.data(), x, top, values, offsets.data());
    }
    write_indices(row, offsets.data(), job.indices + i * row.count);
  }
}

#if defined(__x86_64__)
template <typename T, typename Offset>
[[gnu::target("avx2")]] void pool_planes_with_avx2(const Job<T, Offset>& job) {
  pool_planes(job);
}
#endif

template <typename T, typename Offset>
void pool_with_best(const Job<T, Offset>& job) {
#if defined(__x86_64__)
  if (has_avx2()) return pool_planes_with_avx2(job);
#endif
  pool_planes(job);
}

#if defined(__x86_64__)

// Windows of 2 x 2 that lie side by side, the most common ones, with instructions that pick their
// elements apart.

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

// The elements at the even and the odd positions of two vectors of a row: the left and the right
// columns of the windows.
[[gnu::target("avx2"), gnu::always_inline]] inline Eight even_of(const Eight (&row)[2]) {
  return __builtin_shufflevector(row[0], row[1], 0, 2, 4, 6, 8, 10, 12, 14);
}
[[gnu::target("avx2"), gnu::always_inline]] inline Eight odd_of(const Eight (&row)[2]) {
  return __builtin_shufflevector(row[0], row[1], 1, 3, 5, 7, 9, 11, 13, 15);
}
[[gnu::target("avx2"), gnu::always_inline]] inline Four even_of(const Four (&row)[2]) {
  return __builtin_shufflevector(row[0], row[1], 0, 2, 4, 6);
}
[[gnu::target("avx2"), gnu::always_inline]] inline Four odd_of(const Four (&row)[2]) {
  return __builtin_shufflevector(row[0], row[1], 1, 3, 5, 7);
}

[[gnu::target("avx2"), gnu::always_inline]] inline void pool_eight(const Windows& windows,
                                                                   float* values,
                                                                   int64_t* indices) {
  const Eight upper[] = {_mm256_loadu_ps(windows.upper), _mm256_loadu_ps(windows.upper + 8)};
  const Eight lower[] = {_mm256_loadu_ps(windows.lower), _mm256_loadu_ps(windows.lower + 8)};
  Best<Eight, EightOffsets> best{even_of(upper), {}};
  best.consider(odd_of(upper), 1);
  best.consider(even_of(lower), windows.row_length);
  best.consider(odd_of(lower), windows.row_length + 1);
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
  const Four upper[] = {_mm_loadu_ps(windows.upper), _mm_loadu_ps(windows.upper + 4)};
  const Four lower[] = {_mm_loadu_ps(windows.lower), _mm_loadu_ps(windows.lower + 4)};
  Best<Four, FourOffsets> best{even_of(upper), {}};
  best.consider(odd_of(upper), 1);
  best.consider(even_of(lower), windows.row_length);
  best.consider(odd_of(lower), windows.row_length + 1);
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

// At least four windows of that kind in a row.
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

#endif

}  // namespace

template <typename T>
void max_pool(const PoolPlan& plan, int64_t planes, const T* x, T* values, int64_t* indices) {
#if defined(__x86_64__)
  if constexpr (std::same_as<T, float>) {
    if (can_pool_pairs(plan)) return max_pool_pairs(plan, planes, x, values, indices);
  }
#endif
  // Offsets as wide as the values go through the same vectors.
  const int64_t most = plan.size[0] * plan.row_length;
  if (sizeof(T) == 4 && most <= std::numeric_limits<int32_t>::max()) {
    pool_with_best(Job<T, int32_t>{plan, planes, x, values, indices});
  } else {
    pool_with_best(Job<T, int64_t>{plan, planes, x, values, indices});
  }
}

namespace {

bool are_inside(const int64_t* indices, int64_t count, int64_t plane) {
  bool inside = true;
  for (int64_t i = 0; i < count; ++i) {
    inside &= static_cast<uint64_t>(indices[i]) < static_cast<uint64_t>(plane);
  }
  return inside;
}

}  // namespace

// It goes plane by plane, so that a plane is still in the nearest cache after it was filled with
// zeros.
template <typename T>
bool max_pool_gradient(const PoolGradient<T>& of, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const T* const from = of.g + i * of.pooled;
    const int64_t* const index = of.indices + i * of.pooled;
    T* const to = of.x + i * of.plane;
    if (!are_inside(index, of.pooled, of.plane)) return false;
    std::fill_n(to, of.plane, T(0));
    for (int64_t j = 0; j < of.pooled; ++j) to[index[j]] += from[j];
  }
  return true;
}

template bool max_pool_gradient(const PoolGradient<float>&, int64_t, int64_t);
template bool max_pool_gradient(const PoolGradient<double>&, int64_t, int64_t);
template void max_pool(const PoolPlan&, int64_t, const float*, float*, int64_t*);
template void max_pool(const PoolPlan&, int64_t, const double*, double*, int64_t*);

}  // namespace cohort::internal
