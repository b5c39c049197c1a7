#pragma once

#include "cohort/gradient.h"
#include "ops/variable_cell.h"

// Reading and changing one copy of a variable. They run at once, or become nodes of the graph being
// built; the cell is then the node's resource.
namespace cohort::internal {

Tensor read_variable(const std::shared_ptr<VariableCell>& cell, bool trainable);

// `value` as the cell can hold it. Throws InvalidArgument naming the variable when the dtype would
// lose more than precision or the shape does not fit.
Tensor fit_to_variable(const VariableCell& cell, const Tensor& value, std::string_view operation);

Tensor assign_variable(const std::shared_ptr<VariableCell>& cell, const Tensor& value);
Tensor assign_add_variable(const std::shared_ptr<VariableCell>& cell, const Tensor& delta);
Tensor assign_sub_variable(const std::shared_ptr<VariableCell>& cell, const Tensor& delta);
Tensor scatter_variable(const std::shared_ptr<VariableCell>& cell, ScatterOp op,
                        const IndexedSlices& slices);

// The cell behind a handle. Throws InvalidArgument when it is another kind of resource.
VariableCell& cell_of(const Tensor& handle);
Tensor handle_of(const std::shared_ptr<VariableCell>& cell);

}  // namespace cohort::internal
