#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/distributed_dataset.h"
#include "tensor/devices.h"

namespace cohort {
class StrategyExtended;
}

namespace cohort::internal {

class InputWalks;

// What a DistributedDataset refers to: the pipelines of this worker, and the devices that get their
// elements.
struct DistributedInput {
  // The strategy in whose scope next() may be called; null for the default strategy.
  Strategy* strategy = nullptr;
  InputContext context = InputContext();  // of this worker
  // One for all local replicas, which is dealt out to them, or one for each. Of several workers
  // they only describe the elements: the workers agree on their parts when a walk begins.
  std::vector<data::Dataset> pipelines = {};
  std::shared_ptr<InputWalks> walks = {};
  // One for each local replica; null leaves elements where they are.
  std::vector<const Device*> devices = {};
  int64_t cardinality = data::kUnknownCardinality;  // of this worker's dataset
  // Whether next() fills a last uneven step up, unless the data of all workers is endless.
  bool fills_partial_steps = true;
  // Builds the input again, for the worker that this thread builds for. Set for strategies with
  // remote workers, whose inputs cannot be iterated in this process.
  std::function<std::shared_ptr<const DistributedInput>()> rebuild = {};
  StrategyExtended* extended = nullptr;  // what workers tell each other goes through this

  size_t replicas() const { return devices.size(); }
  bool several_workers() const { return context.num_input_pipelines() > 1; }
  // What one replica's elements are, if that is known without making one.
  std::optional<data::ElementSpec> static_spec() const;
};

// The number of elements that all pipelines have in common.
int64_t common_cardinality(const std::vector<data::Dataset>& pipelines);

}  // namespace cohort::internal
