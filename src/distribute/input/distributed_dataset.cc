#include "cohort/distributed_dataset.h"

#include <fmt/format.h>

#include <ostream>

#include "base/raise.h"
#include "cohort/strategy_extended.h"
#include "data/element_loop.h"
#include "distribute/input/distributed_input.h"
#include "ops/infer.h"

namespace cohort {

using internal::DistributedInputIterator;
using internal::LastStep;

namespace {

constexpr const char* kNoStep = "[DistributedIterator] value() was read, but the dataset has ended";

// What is for the workers of another process cannot be used here.
void check_is_here(const internal::DistributedInput& input, std::string_view what) {
  if (!input.rebuild) return;
  internal::raise(Code::InvalidArgument,
                  "[DistributedDataset] {} needs a dataset of this process, and this dataset is "
                  "built on the workers; pass it to ClusterCoordinator::create_per_worker_dataset "
                  "and its iterator to schedule()",
                  what);
}

}  // namespace

DistributedIterator::DistributedIterator(std::shared_ptr<DistributedInputIterator> impl)
    : impl_(std::move(impl)), handle_(internal::make_resource(impl_)) {}

DistributedElement DistributedIterator::next(Site site) {
  if (handle_.is_symbolic() || internal::is_tracing()) {
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
  if (handle_.is_symbolic() || internal::is_tracing()) {
    internal::raise(Code::FailedPrecondition,
                    "[DistributedIterator] the end of a dataset is not known while a function is "
                    "traced; call next_as_optional(), reduce() or for_each() of the iterator, or "
                    "iterate outside and pass the elements");
  }
  impl_->check_caller();
  return impl_->next_step(LastStep::Filled);
}

data::OptionalElement<DistributedElement> DistributedIterator::next_as_optional(Site site) {
  impl_->check_caller();
  if (!handle_.is_symbolic() && !internal::is_tracing()) {
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

std::string DistributedIterator::kind() const { return "Distributed" + impl_->kind(); }

data::ElementSpec DistributedIterator::element_spec() const { return impl_->replica_spec(); }

std::string DistributedIterator::save() { return impl_->save(); }

DistributedDataset::DistributedDataset(std::shared_ptr<const internal::DistributedInput> impl)
    : impl_(std::move(impl)) {}

DistributedIterator DistributedDataset::iterator() const {
  check_is_here(*impl_, "iterator()");
  const auto make = [impl = impl_] { return std::make_shared<DistributedInputIterator>(impl); };
  const std::shared_ptr<DistributedInputIterator> first = make();
  if (!internal::is_tracing()) return DistributedIterator(first);
  return internal::Access::with_handle(DistributedIterator(first),
                                       data::internal::started_in_each_call(first, make));
}

DistributedIterator DistributedDataset::iterator(const std::string& position) const {
  check_is_here(*impl_, "iterator()");
  return DistributedIterator(std::make_shared<DistributedInputIterator>(impl_, &position));
}

data::ElementSpec DistributedDataset::element_spec() const {
  return impl_->walks->element_spec(*impl_);
}

data::Cardinality DistributedDataset::cardinality() const {
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
                    "[DistributedElement] the numbers of samples are not known while a function is "
                    "traced; read them from the shapes of the elements, or iterate outside");
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
    internal::raise(
        Code::FailedPrecondition,
        "[DistributedElement] global_sample_count() returns a number that differs from step to "
        "step, so a traced function cannot use it; use global_batch_size(), a tensor");
  }
  return global_batch_size().to<int64_t>();
}

Tensor DistributedElement::global_batch_size() const {
  if (global_.defined()) return global_;
  internal::raise(
      Code::FailedPrecondition,
      "[DistributedElement] the samples of all workers are not counted for endless data whose "
      "batches are not of one static size; add up the replicas' counts with all_reduce");
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

namespace internal {

void LeafTensors<DistributedElement>::collect(const DistributedElement& leaf,
                                              std::vector<Tensor>& flat) {
  LeafTensors<PerReplica<data::Element>>::collect(leaf, flat);
  if (leaf.global_.defined()) flat.push_back(leaf.global_);
}

void LeafTensors<DistributedElement>::describe(const DistributedElement& leaf, std::string& text) {
  LeafTensors<PerReplica<data::Element>>::describe(leaf, text);
  if (leaf.global_.defined()) text += 'g';
}

// If the sizes are not known, the replicas' numbers of samples are not known either.
DistributedElement LeafTensors<DistributedElement>::replace(const DistributedElement& like,
                                                            std::span<const Tensor> flat,
                                                            size_t& next) {
  const size_t first = next;
  const PerReplica<data::Element> elements =
      LeafTensors<PerReplica<data::Element>>::replace(like, flat, next);
  bool known = true;
  for (size_t i = first; i < next; ++i) known = known && flat[i].shape().is_fully_known();
  std::vector<std::optional<data::Element>> values;
  for (size_t r = 0; r < elements.size(); ++r) values.emplace_back(elements[r]);
  return DistributedElement(std::move(values), elements.collapsed(),
                            known ? like.sample_counts() : std::vector<int64_t>(),
                            like.global_.defined() ? flat[next++] : Tensor());
}

}  // namespace internal

DistributedDataset::StepIterator::StepIterator(DistributedIterator from) : from_(std::move(from)) {
  ++*this;
}

DistributedDataset::StepIterator& DistributedDataset::StepIterator::operator++() {
  current_ = from_.next_or_end();
  return *this;
}

}  // namespace cohort
