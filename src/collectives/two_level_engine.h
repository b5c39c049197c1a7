#pragma once

#include "collectives/engine.h"

namespace cohort::internal {

// For members on several hosts: reduces inside of each host first, then between one member of each,
// then hands the results out inside. `hosts` has the ranks of each.
std::unique_ptr<Engine> make_two_level_engine(CollectiveGroup& group,
                                              const std::vector<std::vector<int>>& hosts);

}  // namespace cohort::internal
