#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cohort/checkpoint.h"

namespace cohort::internal {

// The file that lists a folder's checkpoints. Paths inside of the folder are stored relative to it,
// so that the folder may move. Reading: see get_checkpoint_state().
void write_state_file(const std::string& folder, const std::string& name,
                      const CheckpointState& state);
// What it says; throws DataLoss when it is not a state file, InvalidArgument when it names no
// latest checkpoint.
CheckpointState parse_state(std::string_view text, const std::string& folder,
                            const std::string& path);

}  // namespace cohort::internal
