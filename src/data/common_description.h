#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/iteration.h"

// What the pipelines must have in common that walk over one dataset: those of several workers, or
// of the replicas of one.
namespace cohort::data::internal {

// The seeds that the user did not choose, in the order of the stages, of those before a division of
// the elements (Node::divides()), where each pipeline must see one order. flat_map and interleave
// always count, because what their datasets divide is not known. Elsewhere pipelines that draw
// differently are what the user wants.
std::vector<uint64_t> common_seeds(const Dataset& pipeline);

// A copy with these in place of common_seeds(); where their number is another, all stages keep
// their own. What comes after a stage with a seed shares nothing with the original, no cache
// either: what this process did with the original decides nothing.
Dataset with_common_seeds(const Dataset& pipeline, std::span<const uint64_t> seeds);

// A copy with numbers of `seeds` in place of all drawn seeds. Stages before those that drew are not
// copied.
Dataset with_drawn_seeds(const Dataset& dataset, Random seeds);

// A cache before a division and after a stage with a seed: all pipelines must hand on one pass.
struct CommonCache {
  std::string stages;  // before it: whether caches of two pipelines correspond
  std::string start;   // see CacheNode::stored_start()
};

// In the order of the stages.
std::vector<CommonCache> common_caches(const Dataset& pipeline);
// What makes a walk over `pipeline` hand on the passes of these caches. Nothing where the
// pipeline's own caches do not correspond to them.
CachedPasses cached_passes(const Dataset& pipeline, const std::vector<CommonCache>& caches);

// The stages with their parameters, one line each, without what workers may have of their own: the
// names of files and other strings, the code of functions, numbers of threads, drawn seeds. Large
// tensors are checksums.
std::vector<std::string> describe_stages(const Dataset& dataset);

}  // namespace cohort::data::internal
