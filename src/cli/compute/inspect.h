#pragma once

#include <string>

namespace cohort::cli {

struct InspectOptions {
  bool verify = false;  // reads everything and compares checksums
  bool dot = false;     // prints a graph as a picture for Graphviz
  int limit = 20;       // entries to show; 0 shows all
};
// Prints the contents of a file. The kind is "checkpoint", "events", "tfrecord", "graph",
// "safetensors", or "auto", which looks at names and first bytes. Throws if the file is damaged.
void inspect(const std::string& kind, const std::string& path, const InspectOptions& options);

// One function for each kind of file; see inspect().
void inspect_checkpoint(const std::string& path, const InspectOptions& options);
void inspect_events(const std::string& path, const InspectOptions& options);
void inspect_safetensors(const std::string& path, const InspectOptions& options);
void inspect_tfrecord(const std::string& path, const InspectOptions& options);

// By its name.
bool is_event_file(const std::string& name);
// By its first bytes, after decompression if the file is compressed.
bool begins_as_tfrecord(const std::string& path);

// How many of `count` entries are shown, and the line that says how many are not.
size_t shown(size_t count, const InspectOptions& options);
void print_rest(size_t count, const InspectOptions& options);

}  // namespace cohort::cli
