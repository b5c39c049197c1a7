#include "ops/rows.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>

#include <cstring>

#include "base/raise.h"

namespace cohort::internal {
namespace {

// A contiguous tensor as seen from an axis: `outer` blocks of `size` rows of `inner` elements.
struct Layout {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

Layout layout_of(at::IntArrayRef sizes, int64_t axis) {
  Layout layout;
  const auto position = static_cast<size_t>(axis);
  for (size_t i = 0; i < position; ++i) layout.outer *= sizes[i];
  layout.size = sizes[position];
  for (size_t i = position + 1; i < sizes.size(); ++i) layout.inner *= sizes[i];
  return layout;
}

at::DimVector with_size(at::IntArrayRef sizes, int64_t axis, int64_t size) {
  at::DimVector changed(sizes.begin(), sizes.end());
  changed[static_cast<size_t>(axis)] = size;
  return changed;
}

[[noreturn]] void raise_outside(std::string_view op, const int64_t* rows, int64_t size) {
  while (*rows >= 0 && *rows < size) ++rows;
  raise(Code::InvalidArgument, "[{}] index {} is outside of a dimension of size {}", op, *rows,
        size);
}

template <typename T>
void add_row(T* __restrict target, const T* __restrict values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] += values[i];
}

template <typename T>
void add_all(T* target, const Layout& layout, const int64_t* rows, int64_t count, const T* values) {
  for (int64_t block = 0; block < layout.outer; ++block) {
    for (int64_t i = 0; i < count; ++i) {
      add_row(target + rows[i] * layout.inner, values, layout.inner);
      values += layout.inner;
    }
    target += layout.size * layout.inner;
  }
}

}  // namespace

at::Tensor checked_rows(std::string_view op, const at::Tensor& indices, int64_t size) {
  at::Tensor flat = indices.to(at::kLong).contiguous().view({-1});
  const int64_t* rows = flat.data_ptr<int64_t>();
  bool outside = false;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    outside |= static_cast<uint64_t>(rows[i]) >= static_cast<uint64_t>(size);
  }
  if (outside) raise_outside(op, rows, size);
  return flat;
}

at::Tensor take_rows(const at::Tensor& x, int64_t axis, const at::Tensor& rows) {
  // The kernel library is quick at single elements, and slow at rows, which it sets up one by one.
  if (x.dim() == 1 || !x.is_contiguous()) return at::index_select(x, axis, rows);
  const Layout layout = layout_of(x.sizes(), axis);
  const int64_t count = rows.numel();
  at::Tensor taken = at::empty(with_size(x.sizes(), axis, count), x.options());
  if (taken.numel() == 0) return taken;
  const auto row_bytes = static_cast<size_t>(layout.inner * x.element_size());
  const auto* source = static_cast<const char*>(x.data_ptr());
  auto* target = static_cast<char*>(taken.data_ptr());
  const int64_t* row = rows.data_ptr<int64_t>();
  for (int64_t block = 0; block < layout.outer; ++block) {
    for (int64_t i = 0; i < count; ++i, target += row_bytes) {
      std::memcpy(target, source + static_cast<size_t>(row[i]) * row_bytes, row_bytes);
    }
    source += static_cast<size_t>(layout.size) * row_bytes;
  }
  return taken;
}

void add_to_rows(const at::Tensor& target, int64_t axis, const at::Tensor& rows,
                 const at::Tensor& values) {
  const at::IntArrayRef sizes = target.sizes();
  const at::Tensor dense = values.reshape(with_size(sizes, axis, rows.numel())).contiguous();
  if (dense.numel() == 0) return;
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, dense.scalar_type(), "add_to_rows", [&] {
    add_all(target.data_ptr<scalar_t>(), layout_of(sizes, axis), rows.data_ptr<int64_t>(),
            rows.numel(), dense.data_ptr<scalar_t>());
  });
}

at::Tensor add_rows(at::IntArrayRef sizes, int64_t axis, const at::Tensor& rows,
                    const at::Tensor& values) {
  at::Tensor target = at::zeros(sizes, values.options());
  add_to_rows(target, axis, rows, values);
  return target;
}

}  // namespace cohort::internal
