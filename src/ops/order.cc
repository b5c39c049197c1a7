#include "ops/order.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "tensor/aten.h"
#include "tensor/visit.h"

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
void order_all(const at::Tensor& x, int64_t keep, bool descending, const Ordered& out) {
  const int64_t size = x.size(-1);
  const int64_t rows = size == 0 ? 0 : x.numel() / size;
  const auto* source = static_cast<const T*>(x.data_ptr());
  auto* values = static_cast<T*>(out.values.data_ptr());
  int64_t* indices = out.indices.data_ptr<int64_t>();
  std::vector<Entry<KeyOf<T>>> row(static_cast<size_t>(size));
  for (int64_t r = 0; r < rows; ++r, source += size) {
    for (int64_t i = 0; i < size; ++i) row[static_cast<size_t>(i)] = {KeyOf<T>(source[i]), i};
    order_first(row, keep, {descending});
    for (int64_t i = 0; i < keep; ++i) {
      *indices++ = row[static_cast<size_t>(i)].place;
      *values++ = source[row[static_cast<size_t>(i)].place];
    }
  }
}

}  // namespace

Ordered order_rows(const at::Tensor& x, int64_t keep, bool descending) {
  const at::Tensor dense = x.contiguous();
  at::DimVector shape(dense.sizes().begin(), dense.sizes().end());
  shape.back() = keep;
  Ordered ordered{at::empty(shape, dense.options()), at::empty(shape, at::kLong)};
  visit_numeric(from_aten(dense.scalar_type()),
                [&]<typename T>(T) { order_all<T>(dense, keep, descending, ordered); });
  return ordered;
}

}  // namespace cohort::internal
