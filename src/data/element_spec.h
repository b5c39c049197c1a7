#pragma once

#include "cohort/data.h"

namespace cohort::data::internal {

// Returns `spec` with an unknown first dimension of each tensor.
ElementSpec with_unknown_rows(const ElementSpec& spec);

// Returns the dtypes and shapes as numbers: see ops/spec_list.h.
std::vector<int64_t> packed_tensors(const ElementSpec& spec);

// Returns the spec of a dataset's elements from its description, or else from its first element
// (see look_at_first()). A spec from an element has unknown first dimensions. nullopt if the
// dataset is empty.
std::optional<ElementSpec> spec_or_probe(const Dataset& dataset);

}  // namespace cohort::data::internal
