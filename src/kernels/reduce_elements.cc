// Justified by `bench_strategies all-reduce` (64 KB to 100 MB) and the packs of
// `bench_collectives`: the additions of an all-reduce are bound by memory, so each element is read
// once, results of large ranges are stored past the caches, and float sums use the widest vectors.

#include "kernels/reduce_elements.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "base/machine.h"
#include "kernels/dtypes.h"

namespace cohort::internal {
namespace {

// Elements that are reduced before the next ones: all their sources fit into the first cache.
constexpr int64_t kBlock = 1024;
// Smaller results stay in the caches for their next reader.
constexpr int64_t kStreamedBytes = 4 << 20;

// The type in which elements of type T are added and multiplied. Unsigned integers wrap around,
// where signed ones may not.
template <typename T>
struct SumOf {
  using Type = T;
};
template <std::integral T>
struct SumOf<T> {
  using Type = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
};

struct Add {
  template <typename T>
  [[gnu::always_inline]] static T of(T a, T b) {
    using Sum = typename SumOf<T>::Type;
    return static_cast<T>(static_cast<Sum>(a) + static_cast<Sum>(b));
  }
};
struct Multiply {
  template <typename T>
  [[gnu::always_inline]] static T of(T a, T b) {
    using Sum = typename SumOf<T>::Type;
    return static_cast<T>(static_cast<Sum>(a) * static_cast<Sum>(b));
  }
};
// NaN wins, from whichever side.
struct Smaller {
  template <typename T>
  [[gnu::always_inline]] static T of(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Larger {
  template <typename T>
  [[gnu::always_inline]] static T of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

// Sums of float and double are the gradients of a training step. Only they have code for AVX2 and
// for several sources at once: each variant costs compile time.
template <typename Op, typename T>
inline constexpr bool kIsHot = std::same_as<Op, Add>&& std::floating_point<T>;

// The type in which a block is reduced: that of the elements, but float for 16-bit floats.
template <typename T>
using Work = std::conditional_t<kIs16BitFloat<T>, float, T>;

// The first kCount sources in one go: intermediate results stay in registers.
template <typename Op, size_t kCount, typename T, typename Source>
[[gnu::always_inline]] inline void combine_first(T* out, const Source& source, int64_t count) {
  const T* from[kCount];
  for (size_t k = 0; k < kCount; ++k) from[k] = source(k);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    T result = from[0][i];
    for (size_t k = 1; k < kCount; ++k) result = Op::of(result, from[k][i]);
    out[i] = result;
  }
}

// Elements `at` to `at` + `count` of all sources, reduced into `out`.
template <typename Op, typename T>
[[gnu::always_inline]] inline void reduce_block(const ElementReduction& reduction, int64_t at,
                                                int64_t count, Work<T>* out) {
  const auto source = [&](size_t k) {
    return reinterpret_cast<const T*>(reduction.sources[k]) + at;
  };
  size_t next = std::min<size_t>(reduction.sources.size(), kIsHot<Op, T> ? 4 : 2);
  if constexpr (kIs16BitFloat<T>) {
    const T* first = source(0);
    for (int64_t i = 0; i < count; ++i) out[i] = first[i];
    next = 1;
  } else if (next == 1) {
    std::memcpy(out, source(0), static_cast<size_t>(count) * sizeof(T));
  } else if (next == 2) {
    combine_first<Op, 2>(out, source, count);
  } else if constexpr (kIsHot<Op, T>) {
    next == 3 ? combine_first<Op, 3>(out, source, count) : combine_first<Op, 4>(out, source, count);
  }
  for (; next < reduction.sources.size(); ++next) {
    const T* from = source(next);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = Op::of(out[i], static_cast<Work<T>>(from[i]));
  }
}

// A reduced block as results: divided, in their own type.
template <typename T, typename Out>
[[gnu::always_inline]] inline void finish_block(const Work<T>* block, int64_t count,
                                                int64_t divisor, Out* out) {
  using Quotient = Work<Out>;  // integers are converted before they are divided
  const auto by = static_cast<Quotient>(divisor);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<Out>(static_cast<Quotient>(block[i]) / by);
  }
}

// A few arrays, each of which the result replaces, without a block in between.
template <size_t kCount, typename T>
[[gnu::always_inline]] inline void add_few(std::byte* const* targets,
                                           const ElementReduction& reduction, int64_t begin,
                                           int64_t end) {
  const T* from[kCount];
  T* to[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    from[k] = reinterpret_cast<const T*>(reduction.sources[k]);
    to[k] = reinterpret_cast<T*>(targets[k]);
  }
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    T result = from[0][i];
    for (size_t k = 1; k < kCount; ++k) result = Add::of(result, from[k][i]);
    for (size_t k = 0; k < kCount; ++k) to[k][i] = result;
  }
}

// The loops for one dtype and operation. `finish` is null where a reduced block is the result.
template <typename T, typename Out>
struct Loops {
  void (*reduce)(const ElementReduction&, int64_t at, int64_t count, Work<T>* out);
  void (*finish)(const Work<T>* block, int64_t count, int64_t divisor, Out* out);
  // For as many targets as sources, which are two or four; may be null.
  using AddFew = void (*)(std::byte* const* targets, const ElementReduction&, int64_t begin,
                          int64_t end);
  AddFew add_two = nullptr;
  AddFew add_four = nullptr;
};

#if defined(__x86_64__)
// The hot loops again, with wider vectors. Whether they are used is decided when the program runs.
template <typename T>
[[gnu::target("avx2")]] void add_block_avx2(const ElementReduction& reduction, int64_t at,
                                            int64_t count, T* out) {
  reduce_block<Add, T>(reduction, at, count, out);
}
template <typename T>
[[gnu::target("avx2")]] void finish_block_avx2(const T* block, int64_t count, int64_t divisor,
                                               T* out) {
  finish_block<T, T>(block, count, divisor, out);
}
template <size_t kCount, typename T>
[[gnu::target("avx2")]] void add_few_avx2(std::byte* const* targets,
                                          const ElementReduction& reduction, int64_t begin,
                                          int64_t end) {
  add_few<kCount, T>(targets, reduction, begin, end);
}
#endif

template <typename Op, typename T, typename Out>
Loops<T, Out> best_loops(bool divides) {
  const bool finishes = divides || kIs16BitFloat<T>;
  if constexpr (kIsHot<Op, T>) {
#if defined(__x86_64__)
    if (has_avx2()) {
      return {add_block_avx2<T>, finishes ? finish_block_avx2<T> : nullptr, add_few_avx2<2, T>,
              add_few_avx2<4, T>};
    }
#endif
    return {reduce_block<Op, T>, finishes ? finish_block<T, Out> : nullptr, add_few<2, T>,
            add_few<4, T>};
  } else {
    return {reduce_block<Op, T>, finishes ? finish_block<T, Out> : nullptr};
  }
}

// Stores that do not read the target's memory first and do not push other things out of the caches.
void stream(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__x86_64__)
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) {
    for (int i = 0; i < 4; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i,
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from) + i));
    }
  }
#endif
  std::memcpy(to, from, bytes);
}

void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

int64_t divisor_of(const ElementReduction& reduction) {
  if (reduction.op != ReduceOp::Mean) return 1;
  return reduction.divisor != 0 ? reduction.divisor
                                : static_cast<int64_t>(reduction.sources.size());
}

// The elements of a reduction that one call computes, for reduction.target or for all of `targets`.
struct Range {
  const ElementReduction& reduction;
  std::span<std::byte* const> targets;
  int64_t begin;
  int64_t end;
};

// Whether the result goes past the caches; such stores need aligned addresses.
bool is_streamed(const Range& range, int64_t result_size) {
  if (!range.targets.empty()) return false;
  const auto first =
      reinterpret_cast<uintptr_t>(range.reduction.target + range.begin * result_size);
  const bool is_large =
      range.reduction.past_caches || (range.end - range.begin) * result_size >= kStreamedBytes;
  return is_large && first % 16 == 0;
}

template <typename T, typename Out>
void run(const Range& range, const Loops<T, Out>& loops) {
  const ElementReduction& reduction = range.reduction;
  if (loops.finish == nullptr && range.targets.size() == reduction.sources.size()) {
    const auto few = range.targets.size() == 2   ? loops.add_two
                     : range.targets.size() == 4 ? loops.add_four
                                                 : nullptr;
    if (few != nullptr) return few(range.targets.data(), reduction, range.begin, range.end);
  }
  const int64_t divisor = divisor_of(reduction);
  const bool streamed = is_streamed(range, sizeof(Out));
  const bool in_place = range.targets.empty() && !streamed;
  alignas(64) Work<T> block[kBlock];
  alignas(64) Out finished[kBlock];
  for (int64_t at = range.begin; at < range.end; at += kBlock) {
    const int64_t count = std::min(kBlock, range.end - at);
    const size_t offset = static_cast<size_t>(at) * sizeof(Out);
    const size_t bytes = static_cast<size_t>(count) * sizeof(Out);
    Out* const out = in_place ? reinterpret_cast<Out*>(reduction.target + offset) : finished;
    if (loops.finish != nullptr) {
      loops.reduce(reduction, at, count, block);
      loops.finish(block, count, divisor, out);
    } else if constexpr (std::same_as<Work<T>, Out>) {
      loops.reduce(reduction, at, count, out);
    }
    const auto* results = reinterpret_cast<const std::byte*>(finished);
    if (streamed) stream(reduction.target + offset, results, bytes);
    for (std::byte* target : range.targets) std::memcpy(target + offset, results, bytes);
  }
  if (streamed) finish_streaming();
}

// The type in which a mean of elements of type T is: integers divide as floats.
template <typename T>
using Divided =
    std::conditional_t<!std::integral<T>, T, std::conditional_t<(sizeof(T) <= 2), float, double>>;

template <typename Op, typename T, typename Out = T>
void run_best(const Range& range) {
  run(range, best_loops<Op, T, Out>(range.reduction.op == ReduceOp::Mean));
}

template <typename T>
void run_typed(const Range& range) {
  switch (range.reduction.op) {
    case ReduceOp::Sum:
      return run_best<Add, T>(range);
    case ReduceOp::Min:
      return run_best<Smaller, T>(range);
    case ReduceOp::Max:
      return run_best<Larger, T>(range);
    case ReduceOp::Product:
      return run_best<Multiply, T>(range);
    case ReduceOp::Mean:
      return run_best<Add, T, Divided<T>>(range);
  }
}

void run_range(const Range& range) {
  visit_numeric(range.reduction.dtype, [&]<typename T>(T) {
    // Bytes of 0 and 1: the smallest is "all", the largest "any", the product "all".
    run_typed<std::conditional_t<std::same_as<T, bool>, uint8_t, T>>(range);
  });
}

}  // namespace

DType reduced_dtype(ReduceOp op, DType dtype) {
  return op == ReduceOp::Mean ? division_dtype(dtype) : dtype;
}

void reduce_elements(const ElementReduction& reduction, int64_t begin, int64_t end) {
  run_range({reduction, {}, begin, end});
}

void reduce_elements_into(std::span<std::byte* const> targets, const ElementReduction& reduction,
                          int64_t begin, int64_t end) {
  run_range({reduction, targets, begin, end});
}

}  // namespace cohort::internal
