// ATen's topk promises no order of equal values, and puts NaN first. This takes as long, see
// "top_k of 10 in 1,000, 128 rows" of `bench_foundation`: only the values that are kept are sorted,
// and entries without ties need no stable algorithm.

#include "kernels/row_order.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/dtypes.h"

namespace cohort::internal {
namespace {

// The 16-bit floats compare as float.
template <typename T>
using KeyOf = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <typename Key>
struct Entry {
  Key key;
  int64_t place;
};

// Orders entries without ties, so that no stable algorithm is needed.
template <typename Key>
struct Before {
  bool descending;

  // The values decide first: nearly all pairs differ, and a comparison with NaN is false.
  bool operator()(const Entry<Key>& a, const Entry<Key>& b) const {
    if (a.key < b.key) return !descending;
    if (b.key < a.key) return descending;
    if constexpr (std::is_floating_point_v<Key>) {
      const bool a_is_nan = a.key != a.key;
      const bool b_is_nan = b.key != b.key;
      if (a_is_nan != b_is_nan) return b_is_nan;
    }
    return a.place < b.place;
  }
};

template <typename T>
Entry<KeyOf<T>> entry(const T* row, int64_t place) {
  return {KeyOf<T>(row[place]), place};
}

// Few of many: one comparison with the last entry that is kept rejects most values.
template <typename T, typename Entries>
void order_few(const T* row, int64_t length, Entries& kept, Before<KeyOf<T>> before) {
  const auto keep = static_cast<int64_t>(kept.size());
  for (int64_t i = 0; i < keep; ++i) kept[static_cast<size_t>(i)] = entry(row, i);
  std::make_heap(kept.begin(), kept.end(), before);
  for (int64_t i = keep; i < length; ++i) {
    const auto next = entry(row, i);
    if (!before(next, kept.front())) continue;
    std::pop_heap(kept.begin(), kept.end(), before);
    kept.back() = next;
    std::push_heap(kept.begin(), kept.end(), before);
  }
  std::sort_heap(kept.begin(), kept.end(), before);
}

template <typename T, typename Entries>
void order_many(const T* row, int64_t keep, Entries& all, Before<KeyOf<T>> before) {
  const auto length = static_cast<int64_t>(all.size());
  for (int64_t i = 0; i < length; ++i) all[static_cast<size_t>(i)] = entry(row, i);
  const auto end = all.begin() + keep;
  if (end != all.end()) std::nth_element(all.begin(), end, all.end(), before);
  std::sort(all.begin(), end, before);
}

// A heap of at most one in 64 values is cheaper than a partition of all.
constexpr int64_t kFew = 64;

template <typename T>
void order_all(const RowsToOrder& of, int64_t keep, T* values, int64_t* indices) {
  const T* row = static_cast<const T*>(of.rows);
  const Before<KeyOf<T>> before{of.descending};
  const bool few = keep > 0 && keep * kFew <= of.length;
  std::vector<Entry<KeyOf<T>>> entries(static_cast<size_t>(few ? keep : of.length));
  for (int64_t r = 0; r < of.count; ++r, row += of.length) {
    if (few) {
      order_few(row, of.length, entries, before);
    } else {
      order_many(row, keep, entries, before);
    }
    for (int64_t i = 0; i < keep; ++i) {
      *indices++ = entries[static_cast<size_t>(i)].place;
      *values++ = row[entries[static_cast<size_t>(i)].place];
    }
  }
}

}  // namespace

void order_rows(const RowsToOrder& of, int64_t keep, void* values, int64_t* indices) {
  visit_numeric(of.dtype,
                [&]<typename T>(T) { order_all(of, keep, static_cast<T*>(values), indices); });
}

}  // namespace cohort::internal
