#include "ops/table_rows.h"

#include <ATen/Functions.h>

#include <unordered_map>

#include "base/raise.h"
#include "cohort/shape.h"
#include "kernels/indexed_rows.h"
#include "tensor/aten.h"

namespace cohort::internal {
namespace {

AxisLayout layout_of(at::IntArrayRef sizes, int64_t axis) {
  AxisLayout layout;
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

bool rows_fit(const at::Tensor& table, const at::Tensor& indices, const at::Tensor& values) {
  return table.dim() >= 1 && indices.dim() == 1 && values.dim() == table.dim() &&
         values.size(0) == indices.size(0) && values.sizes().slice(1) == table.sizes().slice(1);
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
  if (x.dim() == 1 || !x.is_contiguous()) return at::index_select(x, axis, rows);
  const at::Tensor taken = at::empty(with_size(x.sizes(), axis, rows.numel()), x.options());
  if (taken.numel() == 0) return taken;
  copy_rows(layout_of(x.sizes(), axis), x.element_size(), x.data_ptr(), rows.data_ptr<int64_t>(),
            rows.numel(), taken.data_ptr());
  return taken;
}

void add_to_rows(const at::Tensor& target, int64_t axis, const at::Tensor& rows,
                 const at::Tensor& values) {
  const at::IntArrayRef sizes = target.sizes();
  const at::Tensor dense = values.reshape(with_size(sizes, axis, rows.numel())).contiguous();
  if (dense.numel() == 0) return;
  add_to_rows(from_aten(dense.scalar_type()), layout_of(sizes, axis), rows.data_ptr<int64_t>(),
              rows.numel(), dense.data_ptr(), target.data_ptr());
}

at::Tensor add_rows(at::IntArrayRef sizes, int64_t axis, const at::Tensor& rows,
                    const at::Tensor& values) {
  at::Tensor target = at::zeros(sizes, values.options());
  add_to_rows(target, axis, rows, values);
  return target;
}

RowUpdate::RowUpdate(const std::string& variable, const at::Tensor& table,
                     const at::Tensor& indices, const at::Tensor& values)
    : index_storage(indices.to(at::kLong).contiguous()),
      rows(index_storage.data_ptr<int64_t>()),
      count(index_storage.numel()),
      width(0) {
  if (!rows_fit(table, indices, values)) {
    raise(Code::InvalidArgument,
          "[Scatter] rows for variable '{}' of shape {} need a vector of indices and one row of "
          "values each, got indices of shape {} and values of shape {}",
          variable, shape_of(table.sizes()).to_string(), shape_of(indices.sizes()).to_string(),
          shape_of(values.sizes()).to_string());
  }
  width = table.size(0) == 0 ? 0 : table.numel() / table.size(0);
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i] < 0 || rows[i] >= table.size(0)) {
      raise(Code::InvalidArgument,
            "[Scatter] row {} is outside of variable '{}', which has {} rows", rows[i], variable,
            table.size(0));
    }
  }
}

UniqueRows::UniqueRows(const at::Tensor& given_indices, const at::Tensor& given_values) {
  const at::Tensor source = given_indices.to(at::kLong).contiguous();
  const int64_t* rows = source.data_ptr<int64_t>();
  std::unordered_map<int64_t, int64_t> position;
  std::vector<int64_t> order;
  std::vector<int64_t> target;
  for (int64_t i = 0; i < source.numel(); ++i) {
    const auto [entry, fresh] = position.try_emplace(rows[i], static_cast<int64_t>(order.size()));
    if (fresh) order.push_back(rows[i]);
    target.push_back(entry->second);
  }
  if (static_cast<int64_t>(order.size()) == source.numel()) {
    indices = source;
    values = given_values.contiguous();
    return;
  }
  indices = at::tensor(order, at::kLong);
  std::vector<int64_t> shape = given_values.sizes().vec();
  shape[0] = indices.numel();
  values = add_rows(shape, 0, at::tensor(target, at::kLong), given_values);
}

at::Tensor UniqueRows::among_zeros(const at::Tensor& table) const {
  return at::zeros(table.sizes(), values.options()).index_copy_(0, indices, values);
}

}  // namespace cohort::internal
