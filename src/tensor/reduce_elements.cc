#include "tensor/reduce_elements.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/instruction_set.h"
#include "tensor/division_dtype.h"
#include "tensor/visit.h"

namespace cohort::internal {
namespace {

// Elements that are reduced before the next ones: all sources of them fit into the first cache.
constexpr int64_t kBlock = 1024;
// Below this the result stays in the caches for whoever reads it next.
constexpr int64_t kStreamedBytes = 4 << 20;

template <typename T>
inline constexpr bool is_half = std::same_as<T, float16> || std::same_as<T, bfloat16>;

// What elements of type T add up as. Unsigned integers wrap around, where signed ones may not.
template <typename T>
struct SumOf {
  using Type = T;
};
template <typename T>
requires is_half<T>
struct SumOf<T> {
  using Type = float;
};
template <typename T>
requires std::integral<T>
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

// The type in which a block is worked on: that of the elements, but float for 16-bit floats.
template <typename T>
using Work = std::conditional_t<is_half<T>, float, T>;

template <typename Op, typename T>
[[gnu::always_inline]] inline void combine(Work<T>* out, const Work<T>* a, const T* b,
                                           int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = Op::of(a[i], static_cast<Work<T>>(b[i]));
}

// The first kCount sources in one go: what is in between stays in registers.
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

// The first `count` elements at `at` of all sources, into `out`.
template <typename Op, typename T>
[[gnu::always_inline]] inline void reduce_block(const ElementReduction& reduction, int64_t at,
                                                int64_t count, Work<T>* out) {
  const auto source = [&](size_t k) {
    return reinterpret_cast<const T*>(reduction.sources[k]) + at;
  };
  size_t next = std::min<size_t>(reduction.sources.size(), is_half<T> ? 1 : 4);
  if constexpr (is_half<T>) {
    const T* first = source(0);
    for (int64_t i = 0; i < count; ++i) out[i] = first[i];
  } else if (next == 1) {
    std::memcpy(out, source(0), static_cast<size_t>(count) * sizeof(T));
  } else if (next == 2) {
    combine_first<Op, 2>(out, source, count);
  } else if (next == 3) {
    combine_first<Op, 3>(out, source, count);
  } else {
    combine_first<Op, 4>(out, source, count);
  }
  for (; next < reduction.sources.size(); ++next) combine<Op, T>(out, out, source(next), count);
}

// Stores that do not read the target's memory first and do not push other things out of the caches.
template <typename T>
[[gnu::always_inline]] inline void stream(T* target, const T* block, int64_t count) {
  auto* to = reinterpret_cast<std::byte*>(target);
  const auto* from = reinterpret_cast<const std::byte*>(block);
  int64_t bytes = count * static_cast<int64_t>(sizeof(T));
#if defined(__x86_64__)
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) {
    for (int i = 0; i < 4; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i,
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from) + i));
    }
  }
#endif
  std::memcpy(to, from, static_cast<size_t>(bytes));
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

// The result is worked on where it belongs.
template <typename Op, typename T>
[[gnu::always_inline]] inline void reduce_in_place(const ElementReduction& reduction, int64_t begin,
                                                   int64_t end) {
  auto* target = reinterpret_cast<T*>(reduction.target);
  for (int64_t at = begin; at < end; at += kBlock) {
    reduce_block<Op, T>(reduction, at, std::min(kBlock, end - at), target + at);
  }
}

// The result is worked on in a block of its own first: it has another type, is divided, or is not
// to be read back.
template <typename Op, typename T, typename Out>
[[gnu::always_inline]] inline void reduce_in_blocks(const ElementReduction& reduction,
                                                    int64_t begin, int64_t end, bool streamed) {
  using Quotient = Work<Out>;  // as integers are cast before they are divided
  const auto divisor = static_cast<Quotient>(divisor_of(reduction));
  auto* target = reinterpret_cast<Out*>(reduction.target);
  alignas(64) Work<T> block[kBlock];
  alignas(64) Out finished[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    reduce_block<Op, T>(reduction, at, count, block);
    Out* out = streamed ? finished : target + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<Out>(static_cast<Quotient>(block[i]) / divisor);
    }
    if (streamed) stream(target + at, finished, count);
  }
  if (streamed) finish_streaming();
}

template <typename Op, typename T>
[[gnu::always_inline]] inline void reduce_streaming(const ElementReduction& reduction,
                                                    int64_t begin, int64_t end) {
  auto* target = reinterpret_cast<T*>(reduction.target);
  alignas(64) T block[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    reduce_block<Op, T>(reduction, at, count, block);
    stream(target + at, block, count);
  }
  finish_streaming();
}

// Whether the result goes past the caches; such stores need aligned addresses.
template <typename Out>
bool is_streamed(const ElementReduction& reduction, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(sizeof(Out));
  const auto first = reinterpret_cast<uintptr_t>(reduction.target + begin * size);
  const bool is_large = reduction.past_caches || (end - begin) * size >= kStreamedBytes;
  return is_large && first % 16 == 0;
}

// A block of results on its way to several targets.
template <typename Op, typename T, typename Out>
[[gnu::always_inline]] inline void reduce_to_all(std::span<std::byte* const> targets,
                                                 const ElementReduction& reduction, int64_t begin,
                                                 int64_t end) {
  using Quotient = Work<Out>;
  const auto divisor = static_cast<Quotient>(divisor_of(reduction));
  alignas(64) Work<T> block[kBlock];
  alignas(64) Out finished[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    reduce_block<Op, T>(reduction, at, count, block);
    const Out* results = finished;
    if (std::same_as<Work<T>, Out> && reduction.op != ReduceOp::Mean) {
      results = reinterpret_cast<const Out*>(block);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        finished[i] = static_cast<Out>(static_cast<Quotient>(block[i]) / divisor);
      }
    }
    for (std::byte* target : targets) {
      std::memcpy(reinterpret_cast<Out*>(target) + at, results,
                  static_cast<size_t>(count) * sizeof(Out));
    }
  }
}

// A few arrays, each of which the result replaces: nothing is kept in between.
template <typename Op, typename T, size_t kCount>
[[gnu::always_inline]] inline void reduce_few(std::span<std::byte* const> targets,
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
    for (size_t k = 1; k < kCount; ++k) result = Op::of(result, from[k][i]);
    for (size_t k = 0; k < kCount; ++k) to[k][i] = result;
  }
}

// Where one reduction's results go: reduction.target, or all of `targets`.
struct Order {
  const ElementReduction& reduction;
  std::span<std::byte* const> targets;
  int64_t begin;
  int64_t end;
};

template <typename Op, typename T, typename Out = T>
[[gnu::always_inline]] inline void reduce_as(const Order& order) {
  const ElementReduction& reduction = order.reduction;
  const bool divides = reduction.op == ReduceOp::Mean;
  if (!order.targets.empty()) {
    if constexpr (std::same_as<Work<T>, Out>) {
      if (!divides && order.targets.size() == reduction.sources.size()) {
        switch (order.targets.size()) {
          case 2:
            return reduce_few<Op, T, 2>(order.targets, reduction, order.begin, order.end);
          case 4:
            return reduce_few<Op, T, 4>(order.targets, reduction, order.begin, order.end);
        }
      }
    }
    return reduce_to_all<Op, T, Out>(order.targets, reduction, order.begin, order.end);
  }
  const bool streamed = is_streamed<Out>(reduction, order.begin, order.end);
  if constexpr (std::same_as<Work<T>, Out>) {
    if (!divides) {
      return streamed ? reduce_streaming<Op, T>(reduction, order.begin, order.end)
                      : reduce_in_place<Op, T>(reduction, order.begin, order.end);
    }
  }
  reduce_in_blocks<Op, T, Out>(reduction, order.begin, order.end, streamed);
}

// What integers of type T divide as.
template <typename T>
using Divided =
    std::conditional_t<!std::integral<T>, T, std::conditional_t<(sizeof(T) <= 2), float, double>>;

template <typename T>
[[gnu::always_inline]] inline void reduce_typed(const Order& order) {
  switch (order.reduction.op) {
    case ReduceOp::Sum:
      return reduce_as<Add, T>(order);
    case ReduceOp::Min:
      return reduce_as<Smaller, T>(order);
    case ReduceOp::Max:
      return reduce_as<Larger, T>(order);
    case ReduceOp::Product:
      return reduce_as<Multiply, T>(order);
    case ReduceOp::Mean:
      return reduce_as<Add, T, Divided<T>>(order);
  }
}

// The same code for two instruction sets; which one is chosen when the program runs.
template <typename T>
void reduce_anywhere(const Order& order) {
  reduce_typed<T>(order);
}

#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2")]] void reduce_with_avx2(const Order& order) {
  reduce_typed<T>(order);
}
#endif

template <typename T>
void reduce_with_best(const Order& order) {
#if defined(__x86_64__)
  if (has_avx2()) return reduce_with_avx2<T>(order);
#endif
  reduce_anywhere<T>(order);
}

void reduce_ordered(const Order& order) {
  visit_numeric(order.reduction.dtype, [&]<typename T>(T) {
    // Bytes of 0 and 1: the smallest is "all", the largest "any", the product "all".
    reduce_with_best<std::conditional_t<std::same_as<T, bool>, uint8_t, T>>(order);
  });
}

}  // namespace

DType reduced_dtype(ReduceOp op, DType dtype) {
  return op == ReduceOp::Mean ? division_dtype(dtype) : dtype;
}

void reduce_elements(const ElementReduction& reduction, int64_t begin, int64_t end) {
  reduce_ordered({reduction, {}, begin, end});
}

void reduce_elements_into(std::span<std::byte* const> targets, const ElementReduction& reduction,
                          int64_t begin, int64_t end) {
  reduce_ordered({reduction, targets, begin, end});
}

}  // namespace cohort::internal
