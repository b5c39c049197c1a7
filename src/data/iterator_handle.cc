// Iterators as state of a device, by container and name.

#include "cohort/data.h"
#include "data/iterator.h"
#include "ops/run_context.h"

namespace cohort::data::internal {
namespace {

using cohort::internal::Kernel;
using cohort::internal::OpInputs;
using cohort::internal::Specs;

const Tensor& dataset_of(const cohort::internal::Attrs& attrs) {
  return attrs.get<Tensor>("dataset");
}

// An iterator that keeps the description of its dataset.
class NamedIterator : public LocalIterator {
 public:
  NamedIterator(std::string name, Tensor description)
      : LocalIterator(
            DatasetAccess::node(Dataset::deserialize(cohort::internal::strings(description)[0])),
            std::move(name)),
        description_(std::move(description)) {}

  std::string describe_dataset() const override {
    return cohort::internal::strings(description_)[0];
  }
  // A node calls this in each run with the same tensor, which the first comparison recognizes.
  bool is_over(const Tensor& description) const {
    using cohort::internal::TensorAccess;
    return TensorAccess::id(description) == TensorAccess::id(description_) ||
           cohort::internal::strings(description) == cohort::internal::strings(description_);
  }

 private:
  const Tensor description_;
};

Specs infer_handle(const OpInputs& inputs) {
  const Tensor& dataset = dataset_of(inputs.attrs);
  if (dataset.dtype() != kString || dataset.shape() != Shape{}) {
    raise(Code::InvalidArgument, "[{}] a dataset's description is one string, got {} {}", inputs.op,
          to_string(dataset.dtype()), dataset.shape().to_string());
  }
  return {{kResource, Shape{}}};
}

// Errors say that the input pipeline failed, and have the original error as their cause.
std::shared_ptr<NamedIterator> make(const std::string& name, const Tensor& dataset) {
  std::shared_ptr<NamedIterator> made;
  const Status status =
      capture_status([&] { made = std::make_shared<NamedIterator>(name, dataset); });
  if (status.ok()) return made;
  throw Error(Status{
      .code = status.code,
      .message = fmt::format("[Input] iterator '{}' cannot be made: {}", name, status.message),
      .origin = status.origin,
      .cause = std::make_shared<const Status>(status)});
}

void compute_handle(Kernel& k) {
  const auto& name = k.attrs.get<std::string>("shared_name");
  const Tensor& dataset = dataset_of(k.attrs);
  const auto iterator =
      cohort::internal::require_run(k.run, "IteratorHandle")
          .resources()
          .find_or_make<NamedIterator>(k.attrs.get<std::string>("container"), "iterator", name,
                                       [&] { return make(name, dataset); });
  if (!iterator->is_over(dataset)) {
    raise(Code::InvalidArgument, "[Iterator] '{}' exists, over another dataset", name);
  }
  k.outputs[0] = cohort::internal::make_resource(iterator);
}

}  // namespace
}  // namespace cohort::data::internal

namespace cohort::internal {

// The handle of a named iterator of the run's device. The first use makes the iterator.
extern constexpr OpDef kIteratorHandle{
    .name = "IteratorHandle",
    .inputs = 0,
    .dtypes = kResourceType,
    .attrs = {{"dataset", AttrKind::Tensor},
              {"container", AttrKind::Text},
              {"shared_name", AttrKind::Text}},
    .infer = data::internal::infer_handle,
    .compute = data::internal::compute_handle,
    .gradient = nullptr,
    .no_gradient_because = "a handle has no value",
    .traits = Trait::HasEffect | Trait::HostOnly,
};

}  // namespace cohort::internal
