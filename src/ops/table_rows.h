#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "cohort/tensor.h"

// Rows of a tensor along one axis, chosen by number.
namespace cohort::internal {

// `indices`, of any integer dtype and shape, as a contiguous int64 vector. Throws InvalidArgument,
// naming the first index that is not in [0, size).
at::Tensor checked_rows(std::string_view op, const at::Tensor& indices, int64_t size);

// The rows of `x` along `axis`, as many as `rows` (checked) names.
at::Tensor take_rows(const at::Tensor& x, int64_t axis, const at::Tensor& rows);

// Adds row i of `values` along `axis` to row rows[i] (checked) of `target`, which is contiguous and
// of the same dtype, in the order of i.
void add_to_rows(const at::Tensor& target, int64_t axis, const at::Tensor& rows,
                 const at::Tensor& values);

// Zeros of shape `sizes` to which row i of `values` along `axis` is added at rows[i] (checked), in
// the order of i.
at::Tensor add_rows(at::IntArrayRef sizes, int64_t axis, const at::Tensor& rows,
                    const at::Tensor& values);

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

// The same rows, where rows named twice are added up, in the order of first appearance.
struct UniqueRows {
  UniqueRows(const at::Tensor& indices, const at::Tensor& values);
  // A table of the shape of `table`: these rows, all of which it has, and zeros.
  at::Tensor among_zeros(const at::Tensor& table) const;

  at::Tensor indices;
  at::Tensor values;
};

// Elements chosen by number along one axis, each row of the axis by numbers of its own: how values
// follow an ordering, and gradients come back. `indices` has as many dimensions as the tensor.

// Element i of a row of the result is element indices[i] of that row of x.
Tensor take_along(const Tensor& x, const Tensor& indices, int axis);
// Zeros like `like`; element i of a row of x is added to element indices[i] of that row.
Tensor add_along(const Tensor& x, const Tensor& indices, const Tensor& like, int axis);

}  // namespace cohort::internal
