#pragma once

#include "distribute/input_walks.h"

namespace cohort::internal {

// What a worker brings when all begin a walk.
struct OwnTerms {
  Status failure = {};       // why this worker cannot
  InputTerms terms = {};     // as if it were alone; the chief's plan, seeds and caches count
  bool pass_is_set = false;  // the pass is not simply the next one
  std::vector<std::string> stages = {};  // of the dataset that workers share, described
};

// Exchanges the terms of all workers; see InputWalks::agree().
InputTerms agree_on_terms(const DistributedInput& input, const InputSource& source,
                          const OwnTerms& own);

}  // namespace cohort::internal
