#include "ops/row_update.h"

#include <ATen/Functions.h>

#include <unordered_map>

#include "base/raise.h"
#include "cohort/shape.h"
#include "ops/rows.h"

namespace cohort::internal {
namespace {

std::string text_of(at::IntArrayRef sizes) {
  return Shape(std::span(sizes.data(), sizes.size())).to_string();
}

bool rows_fit(const at::Tensor& table, const at::Tensor& indices, const at::Tensor& values) {
  return table.dim() >= 1 && indices.dim() == 1 && values.dim() == table.dim() &&
         values.size(0) == indices.size(0) && values.sizes().slice(1) == table.sizes().slice(1);
}

}  // namespace

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
          variable, text_of(table.sizes()), text_of(indices.sizes()), text_of(values.sizes()));
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
