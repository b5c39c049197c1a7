// Justified by "top_k of 10 in 1,000, 128 rows" of `bench_foundation`: only the values that are
// kept are sorted, and entries without ties need no stable algorithm.

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

  bool operator()(const Entry<Key>& a, const Entry<Key>& b) const {
    if constexpr (std::is_floating_point_v<Key>) {
      const bool a_is_nan = a.key != a.key;
      const bool b_is_nan = b.key != b.key;
      if (a_is_nan != b_is_nan) return b_is_nan;
      if (a_is_nan) return a.place < b.place;
    }
    if (a.key != b.key) return (a.key < b.key) != descending;
    return a.place < b.place;
  }
};

template <typename Key>
void order_first(std::vector<Entry<Key>>& row, int64_t keep, Before<Key> before) {
  const auto end = row.begin() + keep;
  if (end != row.end()) std::nth_element(row.begin(), end, row.end(), before);
  std::sort(row.begin(), end, before);
}

template <typename T>
void order_all(const RowsToOrder& of, int64_t keep, T* values, int64_t* indices) {
  const T* source = static_cast<const T*>(of.rows);
  std::vector<Entry<KeyOf<T>>> row(static_cast<size_t>(of.length));
  for (int64_t r = 0; r < of.count; ++r, source += of.length) {
    for (int64_t i = 0; i < of.length; ++i) row[static_cast<size_t>(i)] = {KeyOf<T>(source[i]), i};
    order_first(row, keep, {of.descending});
    for (int64_t i = 0; i < keep; ++i) {
      *indices++ = row[static_cast<size_t>(i)].place;
      *values++ = source[row[static_cast<size_t>(i)].place];
    }
  }
}

}  // namespace

void order_rows(const RowsToOrder& of, int64_t keep, void* values, int64_t* indices) {
  visit_numeric(of.dtype,
                [&]<typename T>(T) { order_all(of, keep, static_cast<T*>(values), indices); });
}

}  // namespace cohort::internal
