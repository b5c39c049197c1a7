#include "cohort/distributed_dataset.h"

#include "base/raise.h"
#include "distribute/input_iterator.h"

namespace cohort {

using internal::DistributedInputIterator;
using internal::LastStep;

DistributedIterator::DistributedIterator(std::shared_ptr<DistributedInputIterator> impl)
    : impl_(std::move(impl)) {}

DistributedElement DistributedIterator::next() {
  std::optional<DistributedElement> element = next_or_end();
  if (!element) {
    internal::raise(Code::OutOfRange, "[DistributedIterator] the dataset has no more elements");
  }
  return *std::move(element);
}

std::optional<DistributedElement> DistributedIterator::next_optional() {
  return impl_->next(LastStep::Filled);
}

std::optional<DistributedElement> DistributedIterator::next_or_end() {
  return impl_->next(LastStep::ByRule);
}

data::ElementSpec DistributedIterator::element_spec() const {
  return impl_->input().element_spec();
}

std::string DistributedIterator::save() { return impl_->save(); }

DistributedDataset::DistributedDataset(std::shared_ptr<const internal::DistributedInput> impl)
    : impl_(std::move(impl)) {}

DistributedIterator DistributedDataset::iterator() const {
  return DistributedIterator(std::make_shared<DistributedInputIterator>(impl_));
}

DistributedIterator DistributedDataset::iterator(const std::string& position) const {
  return DistributedIterator(std::make_shared<DistributedInputIterator>(impl_, &position));
}

data::ElementSpec DistributedDataset::element_spec() const { return impl_->element_spec(); }

int64_t DistributedDataset::cardinality() const { return impl_->cardinality; }

}  // namespace cohort
