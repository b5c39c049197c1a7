#include "cohort/distributed_dataset.h"

#include <fmt/format.h>

#include <ostream>

#include "base/raise.h"
#include "data/element_loop.h"
#include "distribute/input/input_iterator.h"
#include "ops/infer.h"

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

DistributedElement::DistributedElement(std::vector<std::optional<data::Element>> elements,
                                       bool collapsed, std::vector<int64_t> sample_counts,
                                       Tensor global_batch_size)
    : PerReplica(std::move(elements), collapsed),
      counts_(std::move(sample_counts)),
      global_(std::move(global_batch_size)) {}

const std::vector<int64_t>& DistributedElement::sample_counts() const {
  if (counts_.empty()) {
    internal::raise(Code::FailedPrecondition,
                    "[DistributedElement] how many samples the replicas have is not known while a "
                    "function is traced; ask the shapes of the elements, or iterate outside");
  }
  return counts_;
}

bool DistributedElement::has_data(size_t replica) const {
  const std::vector<int64_t>& counts = sample_counts();
  if (replica >= counts.size()) internal::throw_no_component(replica, counts.size());
  return counts[replica] > 0;
}

int64_t DistributedElement::global_sample_count() const {
  if (knows_global_samples()) return global_.to<int64_t>();
  if (global_.defined()) {
    internal::raise(Code::FailedPrecondition,
                    "[DistributedElement] global_sample_count() is a number, which differs from "
                    "step to step, so a function that is traced does not know it; use "
                    "global_batch_size(), which is a tensor");
  }
  return global_batch_size().to<int64_t>();
}

Tensor DistributedElement::global_batch_size() const {
  if (global_.defined()) return global_;
  internal::raise(
      Code::FailedPrecondition,
      "[DistributedElement] the samples of all workers are not counted for endless data "
      "whose batches are not of one static size; all_reduce adds up those of the "
      "replicas");
}

int64_t InputContext::get_per_replica_batch_size(int64_t global_batch_size) const {
  if (replicas_ < 1 || global_batch_size < 0 || global_batch_size % replicas_ != 0) {
    internal::raise(Code::InvalidArgument,
                    "[InputContext] a global batch of {} cannot be divided evenly among {} "
                    "replicas; choose a multiple of {}",
                    global_batch_size, replicas_, replicas_);
  }
  return global_batch_size / replicas_;
}

std::string InputContext::to_string() const {
  return fmt::format("InputContext(input pipeline id {}, total: {}, replicas in sync: {})", id_,
                     pipelines_, replicas_);
}

std::ostream& operator<<(std::ostream& out, const InputContext& context) {
  return out << context.to_string();
}

}  // namespace cohort
