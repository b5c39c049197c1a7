#pragma once

#include <string>
#include <string_view>

namespace cohort::internal {

// The names of the files of a checkpoint.

std::string manifest_path(std::string_view prefix);
// The name, without folder, of file `index` of `count` of one writing of the checkpoint. Each
// writing has an id of its own, so that a prefix that is written again leaves the old files alone.
std::string data_file_name(std::string_view prefix, const std::string& id, size_t index,
                           size_t count);
// How the name of a SaveIntent ends.
constexpr std::string_view kIntentEnding = ".saving";
// Whether data_file_name gives such names; whether it may be a file of a checkpoint at all.
bool is_data_file_name(std::string_view name);
bool is_checkpoint_file_name(std::string_view name);

}  // namespace cohort::internal
