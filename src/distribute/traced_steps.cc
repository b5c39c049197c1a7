// Steps of distributed datasets in traced functions.

#include <algorithm>

#include "base/raise.h"
#include "data/element_access.h"
#include "distribute/input_iterator.h"
#include "ops/dispatch.h"

namespace cohort::internal {

using data::Element;
using data::ElementSpec;

std::optional<Element> DistributedInputIterator::next() {
  const std::optional<DistributedElement> step = next_step(LastStep::ByRule);
  if (!step) return std::nullopt;
  std::vector<Element> parts;
  for (size_t replica = 0; replica < step->size(); ++replica) parts.push_back((*step)[replica]);
  if (step->knows_global_samples()) parts.emplace_back(step->global_batch_size());
  return Element::tuple(std::move(parts));
}

// As next_step(LastStep::ByRule) finds them.
bool DistributedInputIterator::counts_samples() const {
  if (!input_->several_workers()) return true;
  if (ended_) return false;
  agree();
  return terms_->samples.has_value() || (input_->fills_partial_steps && !terms_->endless);
}

ElementSpec DistributedInputIterator::replica_spec() const {
  const std::lock_guard lock(mutex_);
  look();
  if (!spec_) input_->walks->raise_undescribed();
  return *spec_;
}

void DistributedInputIterator::look() const {
  if (spec_ || ended_) return;
  begin();
  if (!spec_ && walk_->drawn.empty()) draw_one();
}

// All workers trace the step that they are about to make, so they may agree on the data here.
std::optional<ElementSpec> DistributedInputIterator::find_spec() const {
  const PlainDispatch outside;
  const std::lock_guard lock(mutex_);
  look();
  const std::optional<ElementSpec> one = spec_;
  if (!one) return std::nullopt;
  const std::vector<data::TensorSpec> tensors = one->tensors();
  std::vector<data::TensorSpec> all;
  for (size_t i = 0; i < input_->replicas(); ++i) {
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  std::vector<data::internal::StructurePtr> parts(input_->replicas(), one->structure());
  if (counts_samples()) {
    const ElementSpec count(data::TensorSpec{kInt64, Shape{}});
    all.push_back(count.tensors()[0]);
    parts.push_back(count.structure());
  }
  return ElementSpec(data::internal::tuple_structure(parts), std::move(all));
}

std::string DistributedInputIterator::describe_dataset() const {
  raise(Code::FailedPrecondition,
        "[DistributedIterator] steps for the replicas of this process cannot be made in another; "
        "trace a function of the elements instead");
}

DistributedElement DistributedInputIterator::step_of(std::span<const Tensor> tensors) const {
  const auto& structures = element_spec()->structure()->parts;
  std::vector<std::optional<Element>> elements;
  std::vector<int64_t> counts;
  for (size_t replica = 0; replica < input_->replicas(); ++replica) {
    const data::internal::StructurePtr& structure = structures[replica];
    const std::span<const Tensor> own = tensors.first(structure->leaves);
    tensors = tensors.subspan(structure->leaves);
    elements.push_back(data::internal::ElementAccess::make(
        structure, std::vector<Tensor>(own.begin(), own.end())));
    counts.push_back(sample_count(*elements.back()));
  }
  if (std::ranges::find(counts, Shape::kUnknownDim) != counts.end()) counts.clear();
  return DistributedElement(std::move(elements), is_alone(), std::move(counts),
                            tensors.empty() ? Tensor() : tensors.front());
}

}  // namespace cohort::internal
