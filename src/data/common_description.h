#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/iteration.h"

// What the workers that share a dataset must have in common.
namespace cohort::data::internal {

// The seeds that the user did not choose, in the order of the stages.
std::vector<uint64_t> drawn_seeds(const Dataset& dataset);

// A copy with these in place of the drawn seeds, whose number must be that of drawn_seeds(). What
// comes after a stage that draws shares nothing with the original, no cache either: what this
// process did with the original decides nothing.
Dataset with_common_seeds(const Dataset& dataset, std::span<const uint64_t> seeds);

// The same with numbers of `seeds`. Stages before those that drew are not copied.
Dataset with_drawn_seeds(const Dataset& dataset, Random seeds);

// The stages with their parameters, one line each, without what workers may have of their own: the
// names of files, the code of functions, large tensors, numbers of threads, drawn seeds.
std::vector<std::string> describe_stages(const Dataset& dataset);

}  // namespace cohort::data::internal
