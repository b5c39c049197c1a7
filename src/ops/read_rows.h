#pragma once

#include <span>

#include "ops/variable_cell.h"

namespace cohort::internal {

// Which of some ids are in a part of a table.
struct RowsInRange {
  Tensor rows;       // counted from the part's first; int64
  Tensor positions;  // where they were among the ids; int64
};
RowsInRange rows_in_range(const Tensor& ids, int64_t begin, int64_t end);
// The same for part `part` of several, whose first rows are `begins`, then the number of all rows.
// Ids that no part has go to the first and the last, where using them is an error.
RowsInRange rows_of_part(const Tensor& ids, std::span<const int64_t> begins, size_t part);

// The rows of a variable that `rows`, a vector of integers, names. Tapes do not record it.
Tensor read_rows(const VariableHandle& variable, const Tensor& rows);

}  // namespace cohort::internal
