#include "coordinator/per_worker_data.h"

#include "base/raise.h"
#include "data/dummy.h"
#include "distribute/distributed_input.h"
#include "distribute/remote_workers.h"
#include "ops/dispatch.h"

namespace cohort {
namespace internal {
namespace {

[[noreturn]] void raise_not_here() {
  raise(Code::Unimplemented,
        "[PerWorkerIterator] its elements are on the workers; pass it to "
        "ClusterCoordinator::schedule and take them in the function");
}

data::Dataset dataset_in(const PerWorkerSpec& spec) {
  if (const auto* plain = std::get_if<data::Dataset>(&spec)) return *plain;
  const DistributedInput& input = *std::get<DistributedDataset>(spec).input();
  if (input.rebuild) return input.pipelines[0];
  raise(Code::InvalidArgument,
        "[create_per_worker_dataset] the dataset is distributed by a strategy that has no workers "
        "elsewhere; use the ParameterServerStrategy's");
}

}  // namespace

PerWorkerData::PerWorkerData(int workers, const std::function<PerWorkerSpec()>& make) {
  const VariableCreatorScope refuse([](const NextCreator&,
                                       const VariableRequest& request) -> Variable {
    raise(Code::InvalidArgument,
          "[create_per_worker_dataset] the function makes variable '{}'; make variables outside",
          request.options.name);
  });
  for (int worker = 0; worker < workers; ++worker) {
    const BuildForWorker building(worker, workers);
    const data::Dataset dataset = dataset_in(make());
    if (!first_) first_ = dataset;
    descriptions_.push_back(dataset.serialize());
  }
}

std::optional<data::Element> PerWorkerSource::next() { raise_not_here(); }
std::string PerWorkerSource::save() { raise_not_here(); }

std::optional<data::ElementSpec> PerWorkerSource::find_spec() const {
  const PlainDispatch outside;
  return data::internal::spec_or_probe(data_->first());
}

}  // namespace internal

data::Element PerWorkerIterator::next() const { internal::raise_not_here(); }

PerWorkerIterator PerWorkerDataset::iterator() const {
  if (data::internal::tracing()) {
    internal::raise(Code::FailedPrecondition,
                    "[PerWorkerDataset] iterator() cannot be part of a traced function; call it "
                    "outside and pass the iterator as an argument");
  }
  return PerWorkerIterator(data::Iterator(std::make_shared<internal::PerWorkerSource>(data_)));
}

data::ElementSpec PerWorkerDataset::element_spec() const {
  const std::optional<data::ElementSpec> spec = data::internal::spec_or_probe(data_->first());
  if (spec) return *spec;
  internal::raise(Code::FailedPrecondition, "[PerWorkerDataset] there is no element to tell");
}

}  // namespace cohort
