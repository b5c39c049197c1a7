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

data::ElementSpec DistributedInput::element_spec() const {
  if (const auto known = static_spec()) return *known;
  if (const auto seen = data::internal::spec_or_probe(pipelines[0])) return *seen;
  const auto elsewhere = whole ? data::internal::spec_or_probe(*whole) : std::nullopt;
  if (elsewhere) return data::internal::with_unknown_rows(*elsewhere);
  raise(Code::FailedPrecondition,
        "[DistributedDataset] the elements of {} cannot be described: a stage runs C++ code that "
        "only an element would tell about, and there is none",
        pipelines[0].to_string());
}

int64_t common_cardinality(const std::vector<data::Dataset>& pipelines) {
  const int64_t first = pipelines[0].cardinality();
  const bool same = std::ranges::all_of(
      pipelines, [&](const data::Dataset& pipeline) { return pipeline.cardinality() == first; });
  return same ? first : data::kUnknownCardinality;
}

bool may_end_within_a_step(const DistributedInput& input) {
  if (input.cardinality == data::kInfinite) return false;
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
