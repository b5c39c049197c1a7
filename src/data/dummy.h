#pragma once

#include "cohort/data.h"

namespace cohort::data::internal {

// `spec` with the first dimension of each tensor unknown.
ElementSpec with_unknown_rows(const ElementSpec& spec);

// The dtypes and shapes as numbers: see ops/spec_list.h.
std::vector<int64_t> packed_tensors(const ElementSpec& spec);

// What is known of a dataset's elements, from its description where that tells, else from its first
// element, which is made for it (see look_at_first()): then the first dimension counts as unknown.
// nullopt when there is no element to look at.
std::optional<ElementSpec> spec_or_probe(const Dataset& dataset);

// The element for a replica without data: zeros (empty strings) of that spec, with 0 for each
// unknown size, and for the first one where all are known, so that it holds no sample. Throws
// FailedPrecondition for a tensor of unknown rank.
Element dummy_element(const ElementSpec& spec);

}  // namespace cohort::data::internal
