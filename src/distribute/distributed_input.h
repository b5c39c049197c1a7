#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/distributed_dataset.h"
#include "tensor/devices.h"

namespace cohort::internal {

class InputWalks;

// What a DistributedDataset refers to: the pipelines of this worker and who gets their elements.
struct DistributedInput {
  // Whose scope next() may be called in; null for the default strategy, which does not ask.
  Strategy* strategy = nullptr;
  InputContext context = InputContext();  // of this worker
  // One for all local replicas, which is dealt out to them, or one for each. Of several workers
  // only what elements are: which part each gets is agreed on when a walk begins.
  std::vector<data::Dataset> pipelines = {};
  std::shared_ptr<InputWalks> walks = {};
  // One for each local replica; null leaves elements where they are.
  std::vector<const Device*> devices = {};
  int64_t cardinality = data::kUnknownCardinality;  // of this worker's dataset
  // Whether next() fills a last uneven step up, unless the data of all workers is endless.
  bool fills_partial_steps = true;
  // Builds it again, for the worker that this thread builds for. Only of strategies with remote
  // workers; what is built here then is for nobody to iterate.
  std::function<std::shared_ptr<const DistributedInput>()> rebuild = {};
  // See StrategyExtended.
  std::function<InputTotals(const InputTotals&)> sum_over_workers = {};
  std::function<std::vector<std::string>(const std::string& here, const std::string& what)>
      gather_from_workers = {};

  size_t replicas() const { return devices.size(); }
  bool several_workers() const { return context.num_input_pipelines() > 1; }
  // What is known of one replica's elements without making one.
  std::optional<data::ElementSpec> static_spec() const;
};

// The number of elements that all pipelines have in common.
int64_t common_cardinality(const std::vector<data::Dataset>& pipelines);

// Whether the data, if it is not endless, may end in the middle of a step: the elements' sizes are
// not static, or other workers may have a different number of them.
bool may_end_within_a_step(const DistributedInput& input);

// `dataset` with at least `depth` elements made in advance.
data::Dataset read_ahead(const data::Dataset& dataset, int64_t depth);

}  // namespace cohort::internal
