#include "distribute/distributed_input.h"

#include <algorithm>

#include "base/raise.h"
#include "data/dummy.h"
#include "data/node.h"

namespace cohort::internal {
namespace {

bool is_static(const data::ElementSpec& spec) {
  return std::ranges::all_of(
      spec.tensors(), [](const data::TensorSpec& tensor) { return tensor.shape.is_fully_known(); });
}

}  // namespace

std::optional<data::ElementSpec> DistributedInput::static_spec() const {
  std::optional<data::ElementSpec> spec = pipelines[0].element_spec();
  if (spec && several_workers() && fills_partial_steps) {
    return data::internal::with_unknown_rows(*spec);
  }
  return spec;
}

int64_t common_cardinality(const std::vector<data::Dataset>& pipelines) {
  const int64_t first = pipelines[0].cardinality();
  const bool same = std::ranges::all_of(
      pipelines, [&](const data::Dataset& pipeline) { return pipeline.cardinality() == first; });
  return same ? first : data::kUnknownCardinality;
}

bool may_end_within_a_step(const DistributedInput& input) {
  if (input.several_workers()) return true;
  return std::ranges::any_of(input.pipelines, [](const data::Dataset& pipeline) {
    const std::optional<data::ElementSpec> spec = pipeline.element_spec();
    return !spec || !is_static(*spec);
  });
}

data::Dataset read_ahead(const data::Dataset& dataset, int64_t depth) {
  if (data::internal::DatasetAccess::node(dataset)->read_ahead() >= depth) return dataset;
  return dataset.prefetch(static_cast<int>(depth));
}

}  // namespace cohort::internal
