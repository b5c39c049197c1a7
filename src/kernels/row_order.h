#pragma once

#include <cstdint>

#include "cohort/dtype.h"

namespace cohort::internal {

// Rows of numbers that lie one after the other.
struct RowsToOrder {
  DType dtype;
  const void* rows;
  int64_t count;
  int64_t length;  // of a row
  bool descending;
};

// The first `keep` values of each row once the row is sorted, and where in the row they were. Equal
// values keep their order; NaN comes after everything else, whichever way the rest is sorted.
void order_rows(const RowsToOrder& of, int64_t keep, void* values, int64_t* indices);

}  // namespace cohort::internal
