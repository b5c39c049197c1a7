#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/iteration.h"

// What pipelines over one dataset must have in common: the pipelines of several workers, or of the
// replicas of one worker.
namespace cohort::data::internal {

// Returns the drawn seeds of all stages before a division of the elements (Node::divides()), in the
// order of the stages: before a division all pipelines must see the same order of elements. The
// seeds of flat_map and interleave always count, because their datasets may divide elements. Stages
// after all divisions may draw differently in each pipeline.
std::vector<uint64_t> common_seeds(const Dataset& pipeline);

// Returns a copy with `seeds` in place of common_seeds(). If their number differs, all stages keep
// their seeds. Stages after a stage with a seed share no state with the original, so that earlier
// iterators and caches of this process have no effect.
Dataset with_common_seeds(const Dataset& pipeline, std::span<const uint64_t> seeds);

// Returns a copy with numbers of `seeds` in place of all drawn seeds. Stages before the first drawn
// seed are not copied.
Dataset with_drawn_seeds(const Dataset& dataset, Random seeds);

// A cache before a division and after a stage with a seed: all pipelines must deliver the same
// pass.
struct CommonCache {
  std::string stages;  // before the cache; equal if caches of two pipelines correspond
  std::string start;   // see Node::stored_start()
};

// In the order of the stages.
std::vector<CommonCache> common_caches(const Dataset& pipeline);
// Returns the passes that a walk over `pipeline` must deliver, given the caches of another
// pipeline. Caches of `pipeline` that do not correspond to those are left out.
CachedPasses cached_passes(const Dataset& pipeline, const std::vector<CommonCache>& caches);

// Describes each stage and its parameters in one line. It leaves out what may differ between
// workers: strings such as file names, the code of functions, numbers of threads and drawn seeds.
// Large tensors appear as checksums.
std::vector<std::string> describe_stages(const Dataset& dataset);

}  // namespace cohort::data::internal
