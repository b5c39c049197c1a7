#pragma once

#include <string>

#include "cli/compute/compute.h"

namespace cohort::cli {

// One for each kind of file; see inspect().
void inspect_checkpoint(const std::string& path, const InspectOptions& options);
void inspect_events(const std::string& path, const InspectOptions& options);
void inspect_graph(const std::string& path, const InspectOptions& options);
void inspect_safetensors(const std::string& path, const InspectOptions& options);
void inspect_tfrecord(const std::string& path, const InspectOptions& options);

// By its name.
bool is_event_file(const std::string& name);
// By their bytes, after decompression where the file is compressed.
bool begins_as_tfrecord(const std::string& path);
bool is_graph(const std::string& path);

// How many of `count` entries are shown; and the line that says how many are not.
size_t shown(size_t count, const InspectOptions& options);
void print_rest(size_t count, const InspectOptions& options);

}  // namespace cohort::cli
