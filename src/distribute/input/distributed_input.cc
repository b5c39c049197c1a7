#include "distribute/input/distributed_input.h"

#include <algorithm>

#include "base/raise.h"
#include "cohort/strategy_extended.h"
#include "data/element_access.h"
#include "distribute/contexts/context.h"
#include "distribute/strategies/worker_strategies.h"

namespace cohort {
namespace internal {

std::optional<data::ElementSpec> DistributedInput::static_spec() const {
  std::optional<data::ElementSpec> spec = pipelines[0].element_spec();
  if (spec && several_workers() && fills_partial_steps) {
    return data::internal::with_unknown_rows(*spec);
  }
  return spec;
}

data::Cardinality common_cardinality(const std::vector<data::Dataset>& pipelines) {
  const data::Cardinality first = pipelines[0].cardinality();
  const bool same = std::ranges::all_of(
      pipelines, [&](const data::Dataset& pipeline) { return pipeline.cardinality() == first; });
  return same ? first : data::kUnknownCardinality;
}

}  // namespace internal

using internal::DistributedInput;
using internal::InputSource;
using internal::raise;

namespace {

bool is_static(const data::ElementSpec& spec) {
  return std::ranges::all_of(
      spec.tensors(), [](const TensorSpec& tensor) { return tensor.shape.is_fully_known(); });
}

// Whether the data, if it is not endless, may end in the middle of a step: the elements' sizes are
// not static, or other workers may have a different number of them.
bool may_end_within_a_step(const DistributedInput& input) {
  if (input.several_workers()) return true;
  return std::ranges::any_of(input.pipelines, [](const data::Dataset& pipeline) {
    const std::optional<data::ElementSpec> spec = pipeline.element_spec();
    return !spec || !is_static(*spec);
  });
}

void check_options(const InputOptions& options) {
  const bool per_replica = options.replication_mode == InputReplicationMode::PerReplica;
  if (options.place_dataset_on_device && !per_replica) {
    raise(Code::InvalidArgument,
          "[InputOptions] place_dataset_on_device needs replication_mode PerReplica: one pipeline "
          "for all replicas cannot be on the device of each");
  }
  if (options.place_dataset_on_device && options.fetch_to_device) {
    raise(Code::InvalidArgument,
          "[InputOptions] place_dataset_on_device makes elements on the device, so nothing is "
          "left to fetch; set fetch_to_device to false");
  }
  if (options.per_replica_buffer_size < 0) {
    raise(Code::InvalidArgument,
          "[InputOptions] per_replica_buffer_size must be 0 (no buffer) or more, got {}",
          options.per_replica_buffer_size);
  }
}

[[noreturn]] void raise_no_replica_pipelines(const Strategy& strategy, std::string_view what) {
  raise(Code::Unimplemented,
        "[{}] {} has one input pipeline for all replicas here; replication_mode PerReplica is for "
        "MirroredStrategy::distribute_datasets_from_function",
        what, strategy.to_string());
}

bool has_remote_workers(const StrategyExtended& extended) {
  return dynamic_cast<const internal::RemoteWorkers*>(&extended) != nullptr;
}

// Checks the numbers of a strategy, which the program may have written itself.
void check_layout(const StrategyExtended& extended, const DistributedInput& input) {
  if (has_remote_workers(extended)) return;  // each is a group of its own
  const int workers = input.context.num_input_pipelines();
  const int worker = input.context.input_pipeline_id();
  const int replicas = input.context.num_replicas_in_sync();
  if (workers < 1 || worker < 0 || worker >= workers || replicas % workers != 0 ||
      static_cast<size_t>(replicas / workers) != input.replicas()) {
    raise(Code::InvalidArgument,
          "[DistributeDataset] {}: {} replicas cannot be worker {} of {} with {} devices each",
          extended.name(), replicas, worker, workers, input.replicas());
  }
}

DistributedInput input_of(Strategy& strategy, const InputOptions& options) {
  StrategyExtended& extended = strategy.extended();
  DistributedInput input{
      .strategy = &strategy == &internal::default_strategy() ? nullptr : &strategy,
      .context = extended.input_context(),
      .extended = &extended};
  const bool moved = options.fetch_to_device || options.place_dataset_on_device;
  for (const std::string& device : extended.input_devices()) {
    const bool stays = !moved || device.empty();
    input.devices.push_back(stays ? nullptr : &internal::find_device(device));
  }
  check_layout(extended, input);
  return input;
}

// Fills in what follows from the source. One worker knows its pipelines at once. Several agree on
// theirs when a walk begins, because a worker that is started again comes to that, and not to this
// call, together with the others.
DistributedDataset finish(DistributedInput input, InputSource source,
                          const StrategyExtended& extended, const InputOptions& options) {
  if (options.fetch_to_device && input.strategy != nullptr) {
    const auto replicas = static_cast<int64_t>(input.replicas() / source.datasets.size());
    source.read_ahead = replicas * options.per_replica_buffer_size;
  }
  input.cardinality = internal::common_cardinality(source.datasets);
  input.walks = std::make_shared<internal::InputWalks>(source);
  if (source.share.workers == 1) {
    input.pipelines = input.walks->build_alone();
  } else if (source.is_shared) {
    data::internal::check_batched("DistributeDataset", source.datasets[0]);
    input.pipelines = {source.datasets[0].split_batches(source.share.replicas())};
  } else {
    input.pipelines = source.datasets;
  }
  input.fills_partial_steps = extended.traits().fills_partial_steps && may_end_within_a_step(input);
  return internal::Access::make<DistributedDataset>(
      std::make_shared<const DistributedInput>(std::move(input)));
}

// Where the function that makes the pipeline of a device is called: on its host.
std::string pipeline_device(const std::string& device, const InputOptions& options) {
  DeviceName place = DeviceName::parse_any_form(device);
  if (!options.place_dataset_on_device && !device.empty()) {
    place.type = "CPU";
    place.index = 0;
  }
  return place.to_string();
}

}  // namespace

DistributedDataset Strategy::distribute_dataset(const data::Dataset& dataset,
                                                const InputOptions& options) {
  if (options.replication_mode == InputReplicationMode::PerReplica) {
    raise_no_replica_pipelines(*this, "distribute_dataset");
  }
  check_options(options);
  DistributedInput input = input_of(*this, options);
  // Workers that do not wait for each other do not share the data out either.
  const InputContext among =
      has_remote_workers(*extended_) ? InputContext(1, 0, num_replicas_in_sync()) : input.context;
  const InputSource source{
      .datasets = {dataset},
      .is_shared = true,
      .share = {.workers = among.num_input_pipelines(),
                .worker = among.input_pipeline_id(),
                .replicas_per_worker = static_cast<int64_t>(input.replicas())}};
  if (has_remote_workers(*extended_)) {
    input.rebuild = [this, dataset, options] {
      return internal::Access::impl(distribute_dataset(dataset, options));
    };
  }
  return finish(std::move(input), source, *extended_, options);
}

DistributedDataset Strategy::distribute_datasets_from_function(
    const std::function<data::Dataset(const InputContext&)>& f, const InputOptions& options) {
  const bool per_replica = options.replication_mode == InputReplicationMode::PerReplica;
  if (per_replica && !extended_->traits().supports_replica_pipelines) {
    raise_no_replica_pipelines(*this, "distribute_datasets_from_function");
  }
  check_options(options);
  DistributedInput input = input_of(*this, options);
  const std::vector<std::string> devices = extended_->input_devices();
  const int pipelines = per_replica ? static_cast<int>(devices.size()) : 1;
  InputSource source{.share = {.workers = input.context.num_input_pipelines(),
                               .worker = input.context.input_pipeline_id()}};
  for (int i = 0; i < pipelines; ++i) {
    const DeviceScope on(pipeline_device(devices[static_cast<size_t>(i)], options));
    source.datasets.push_back(
        f(per_replica ? InputContext(pipelines, i, num_replicas_in_sync()) : input.context));
  }
  if (has_remote_workers(*extended_)) {
    input.rebuild = [this, f, options] {
      return internal::Access::impl(distribute_datasets_from_function(f, options));
    };
  }
  return finish(std::move(input), std::move(source), *extended_, options);
}

}  // namespace cohort
