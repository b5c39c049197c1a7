#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace cohort::internal {

// A checked change of some rows of a table: every index is inside, every row has the table's width.
struct RowUpdate {
  // Throws InvalidArgument naming the variable. `table` is contiguous, `values` of shape (n, ...).
  RowUpdate(const std::string& variable, const at::Tensor& table, const at::Tensor& indices,
            const at::Tensor& values);

  at::Tensor index_storage;  // int64, contiguous
  const int64_t* rows;
  int64_t count;
  int64_t width;  // elements of one row
};

// The same rows with those named twice added up, in the order of first appearance.
struct UniqueRows {
  UniqueRows(const at::Tensor& indices, const at::Tensor& values);
  // A table of the shape of `table`: these rows, all of which it has, and zeros.
  at::Tensor among_zeros(const at::Tensor& table) const;

  at::Tensor indices;
  at::Tensor values;
};

}  // namespace cohort::internal
