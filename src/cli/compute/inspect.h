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

}  // namespace cohort::cli
