#pragma once

#include <cstdint>

#include "cohort/dtype.h"

// Rows of an array along one axis, chosen by number. The numbers have been checked.
namespace cohort::internal {

// A dense array as seen from an axis: `outer` blocks of `size` rows of `inner` elements.
struct AxisLayout {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

// Copies row rows[i] of each block of `source` to row i of the same block of `target`, which has
// `count` rows in a block.
void copy_rows(const AxisLayout& layout, int64_t element_size, const void* source,
               const int64_t* rows, int64_t count, void* target);

// Adds row i of each block of `values` to row rows[i] of the same block of `target`, in the order
// of i. Throws InvalidArgument for a dtype that is not a number.
void add_to_rows(DType dtype, const AxisLayout& layout, const int64_t* rows, int64_t count,
                 const void* values, void* target);

// How a change of rows combines the old row with the new one.
enum class ScatterOp { Update, Add, Sub, Mul, Div, Min, Max };

// Changes rows of `width` elements of `table`: row rows[i] by row i of `values`, in the order of i,
// so that a row named twice is changed twice. Integers wrap around; the divisors of integers are
// not zero.
void scatter_rows(DType dtype, ScatterOp op, int64_t width, const int64_t* rows, int64_t count,
                  const void* values, void* table);

}  // namespace cohort::internal
