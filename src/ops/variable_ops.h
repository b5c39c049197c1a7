#pragma once

#include <span>

#include "cohort/gradient.h"
#include "ops/variable_cell.h"

// Reading and changing one copy of a variable. They run at once, or become nodes of the graph being
// built, with the handle as their input.
namespace cohort::internal {

Tensor read_variable(const VariableHandle& variable, bool trainable);
// Tells this thread's tapes that `value` was read from the variable with that handle. Returns it.
Tensor note_read(const Tensor& handle, const Tensor& value, bool trainable);

// `value` as the variable can hold it. Throws InvalidArgument naming the variable when the dtype
// would lose more than precision or the shape does not fit.
Tensor fit_to_variable(const VariableHandle& variable, const Tensor& value,
                       std::string_view operation);

// Throws InvalidArgument naming the variable unless it holds integers or floats.
void require_arithmetic(const VariableHandle& variable, std::string_view operation);

// Whether the variable has a value; bool.
Tensor is_variable_initialized(const VariableHandle& variable);
Tensor write_variable(const VariableHandle& variable, Write how, const Tensor& value);
Tensor scatter_variable(const VariableHandle& variable, ScatterOp op, const IndexedSlices& slices);

// Which of some ids are in a part of a table.
struct RowsInRange {
  Tensor rows;       // counted from the part's first; int64
  Tensor positions;  // where they were among the ids; int64
};
// Those in part `part` of several, whose first rows are `begins`, then the number of all rows. Ids
// that no part has go to the first and the last, where using them is an error.
RowsInRange rows_of_part(const Tensor& ids, std::span<const int64_t> begins, size_t part);

// The rows of a variable that `rows`, a vector of integers, names. Tapes do not record it.
Tensor read_rows(const VariableHandle& variable, const Tensor& rows);

// The same rows with those named twice added up, in the order of first appearance.
IndexedSlices merge_rows(const IndexedSlices& slices);

// The cell behind a handle. Throws InvalidArgument when it is another kind of resource.
VariableCell& cell_of(const Tensor& handle);

// State may be shared with a graph that declares it differently. Another shape is taken as it is;
// throws InvalidArgument, naming the variable, for another dtype than the op's graph declares.
void check_declared(const VariableCell& cell, const Tensor& stored, DType declared);

}  // namespace cohort::internal
