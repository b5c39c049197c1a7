#pragma once

#include <string_view>

namespace cohort::internal {

// For a strategy of one process: warns, once per process, if this process was started as one of
// several, each of which would train its own model. `remedy` trains one model together.
void warn_if_one_of_several(std::string_view strategy,
                            std::string_view remedy = "use MultiWorkerMirroredStrategy");

// Says that this process works together with the others: no later warning.
void note_joint_training();

}  // namespace cohort::internal
