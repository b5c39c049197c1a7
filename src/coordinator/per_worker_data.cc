#include "coordinator/per_worker_data.h"

#include "base/raise.h"
#include "data/common_description.h"
#include "data/node.h"
#include "distribute/input/distributed_input.h"
#include "distribute/strategies/worker_strategies.h"
#include "ops/dispatch.h"

namespace cohort {
namespace internal {
namespace {

[[noreturn]] void raise_not_here() {
  raise(Code::Unimplemented,
        "[PerWorkerIterator] the elements are on the workers; pass the iterator to "
        "ClusterCoordinator::schedule and take them in the function");
}

// A generator may make other elements in this process than on the workers.
void check_probe(const data::Dataset& dataset) {
  for (const auto& stage :
       data::internal::all_stages(data::internal::DatasetAccess::node(dataset))) {
    if (!stage->generates() || stage->spec()) continue;
    raise(Code::FailedPrecondition,
          "[PerWorkerDataset] the element type of a generator on the workers is unknown here; "
          "declare it with data::generator(f, spec)");
  }
}

}  // namespace

PerWorkerData::Pipeline PerWorkerData::pipeline_in(const PerWorkerSpec& spec) {
  if (const auto* plain = std::get_if<data::Dataset>(&spec)) return {*plain, 1};
  const DistributedInput& input = *Access::impl(std::get<DistributedDataset>(spec));
  if (input.rebuild) return {input.pipelines[0], input.replicas()};
  raise(Code::InvalidArgument,
        "[create_per_worker_dataset] the dataset is distributed by a strategy without remote "
        "workers; distribute it by the ParameterServerStrategy");
}

PerWorkerData::Pipeline PerWorkerData::build(int worker, int workers) const {
  const VariableCreatorScope refuse([](const NextCreator&,
                                       const VariableRequest& request) -> Variable {
    raise(Code::InvalidArgument,
          "[create_per_worker_dataset] the function makes variable '{}'; make variables outside",
          request.options.name);
  });
  const BuildForWorker building(worker, workers);
  Pipeline pipeline = pipeline_in(make_());
  // Workers shuffle differently unless the user chose the seed, also if they get the same dataset.
  pipeline.dataset = data::internal::with_drawn_seeds(
      pipeline.dataset, data::internal::Random(data::internal::random_seed()));
  return pipeline;
}

PerWorkerData::PerWorkerData(int workers, std::function<PerWorkerSpec()> make)
    : make_(std::move(make)) {
  for (int worker = 0; worker < workers; ++worker) {
    const Pipeline pipeline = build(worker, workers);
    if (!first_) first_ = pipeline.dataset;
    replicas_ = pipeline.replicas;
    descriptions_.push_back(pipeline.dataset.serialize());
  }
}

std::string PerWorkerData::description(int worker) const {
  const std::lock_guard one_at_a_time(building_);
  while (descriptions_.size() <= static_cast<size_t>(worker)) {
    const auto late = static_cast<int>(descriptions_.size());
    descriptions_.push_back(build(late, late + 1).dataset.serialize());
  }
  return descriptions_[static_cast<size_t>(worker)];
}

const std::optional<data::ElementSpec>& PerWorkerData::element_spec() const {
  spec_once_.call([this] {
    const PlainDispatch outside;
    if (!first_->element_spec()) check_probe(*first_);
    spec_ = data::internal::spec_or_probe(*first_);
  });
  return spec_;
}

std::optional<data::Element> PerWorkerSource::next() { raise_not_here(); }
std::string PerWorkerSource::save() { raise_not_here(); }

}  // namespace internal

data::Element PerWorkerIterator::next() const { internal::raise_not_here(); }

PerWorkerIterator PerWorkerDataset::iterator() const {
  if (internal::is_tracing()) {
    internal::raise(Code::FailedPrecondition,
                    "[PerWorkerDataset] iterator() cannot be part of a traced function; call it "
                    "outside and pass the iterator as an argument");
  }
  return internal::Access::make<PerWorkerIterator>(
      internal::Access::make<data::Iterator>(std::make_shared<internal::PerWorkerSource>(data_)));
}

data::ElementSpec PerWorkerDataset::element_spec() const {
  if (const auto& spec = data_->element_spec()) return *spec;
  internal::raise(Code::FailedPrecondition,
                  "[PerWorkerDataset] the dataset is empty, so its element type is unknown");
}

}  // namespace cohort
