#include "cohort/distributed_dataset.h"

#include "base/raise.h"
#include "data/element_loop.h"
#include "distribute/input_iterator.h"
#include "ops/require.h"

namespace cohort {

using internal::DistributedInputIterator;
using internal::LastStep;

DistributedIterator::DistributedIterator(std::shared_ptr<DistributedInputIterator> impl)
    : impl_(std::move(impl)), handle_(internal::make_resource(impl_)) {}

DistributedElement DistributedIterator::next(Site site) {
  if (handle_.is_symbolic() || data::internal::tracing()) {
    impl_->check_caller();
    return impl_->step_of(internal::iterator_next(handle_, impl_->layout(), site));
  }
  std::optional<DistributedElement> element = next_or_end();
  if (!element) {
    internal::raise(Code::OutOfRange, "[DistributedIterator] the dataset has no more elements");
  }
  return *std::move(element);
}

std::optional<DistributedElement> DistributedIterator::next_optional() {
  if (handle_.is_symbolic() || data::internal::tracing()) {
    internal::raise(Code::FailedPrecondition,
                    "[DistributedIterator] the end of a dataset is not known while a function is "
                    "traced; call next_as_optional(), reduce() or for_each() of the iterator, or "
                    "iterate outside and pass the elements");
  }
  impl_->check_caller();
  return impl_->next_step(LastStep::Filled);
}

namespace {

constexpr const char* kNoStep = "[DistributedIterator] value() was read, but the dataset has ended";

}  // namespace

data::OptionalElement<DistributedElement> DistributedIterator::next_as_optional(Site site) {
  impl_->check_caller();
  if (!handle_.is_symbolic() && !data::internal::tracing()) {
    std::optional<DistributedElement> element = next_or_end();
    const Tensor has_value(element.has_value());
    return {has_value, [element = std::move(element)] {
              if (!element) internal::raise(Code::InvalidArgument, kNoStep);
              return *element;
            }};
  }
  std::vector<Tensor> found = internal::iterator_next_optional(handle_, impl_->layout(), site);
  return {found[0], [found, impl = impl_] {
            std::vector<Tensor> tensors;
            for (size_t i = 1; i < found.size(); ++i) {
              tensors.push_back(internal::require_true(found[i], found[0], kNoStep));
            }
            return impl->step_of(tensors);
          }};
}

std::vector<Tensor> DistributedIterator::reduce(const std::vector<Tensor>& initial,
                                                const LoopBody& body, Site site) {
  return data::internal::loop_over(*this, initial, body, site);
}

Tensor DistributedIterator::for_each(const std::function<void(const DistributedElement&)>& body,
                                     Site site) {
  return data::internal::count_over(*this, body, site);
}

std::optional<DistributedElement> DistributedIterator::next_or_end() {
  impl_->check_caller();
  return impl_->next_step(LastStep::ByRule);
}

DistributedIterator DistributedIterator::with_handle(Tensor handle) const {
  DistributedIterator other = *this;
  other.handle_ = std::move(handle);
  return other;
}

std::string DistributedIterator::kind() const { return "Distributed" + impl_->kind(); }

data::ElementSpec DistributedIterator::element_spec() const { return impl_->replica_spec(); }

std::string DistributedIterator::save() { return impl_->save(); }

DistributedDataset::DistributedDataset(std::shared_ptr<const internal::DistributedInput> impl)
    : impl_(std::move(impl)) {}

namespace {

// What is for the workers of another process cannot be used here.
void check_is_here(const internal::DistributedInput& input, std::string_view what) {
  if (!input.rebuild) return;
  internal::raise(Code::InvalidArgument,
                  "[DistributedDataset] {} of a dataset that is built on the workers: pass it to "
                  "ClusterCoordinator::create_per_worker_dataset and its iterator to schedule()",
                  what);
}

}  // namespace

DistributedIterator DistributedDataset::iterator() const {
  check_is_here(*impl_, "iterator()");
  const auto make = [impl = impl_] { return std::make_shared<DistributedInputIterator>(impl); };
  const std::shared_ptr<DistributedInputIterator> first = make();
  if (!data::internal::tracing()) return DistributedIterator(first);
  return DistributedIterator(first).with_handle(data::internal::started_in_each_call(first, make));
}

DistributedIterator DistributedDataset::iterator(const std::string& position) const {
  check_is_here(*impl_, "iterator()");
  return DistributedIterator(std::make_shared<DistributedInputIterator>(impl_, &position));
}

data::ElementSpec DistributedDataset::element_spec() const {
  return impl_->walks->element_spec(*impl_);
}

int64_t DistributedDataset::cardinality() const {
  check_is_here(*impl_, "cardinality()");
  return impl_->cardinality;
}

}  // namespace cohort
