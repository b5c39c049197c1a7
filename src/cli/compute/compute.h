#pragma once

#include <string>
#include <vector>

namespace cohort::cli {

// What the `cohort` command leaves to a program that loads the whole library. Each writes to the
// standard output and throws what is wrong.

// Serves the task that the environment names, until it is told to stop.
void serve();

struct InspectOptions {
  bool verify = false;  // reads everything and compares checksums
  bool dot = false;     // a graph as a picture for Graphviz
  int limit = 20;       // of entries to show; 0 shows all
};
// Prints what is in a file. The kind is "checkpoint", "events", "tfrecord", "graph",
// "safetensors", or "auto", which looks at names and first bytes.
void inspect(const std::string& kind, const std::string& path, const InspectOptions& options);

// How fast a matrix product is, in billions of operations per second; for doctor.
void measure_product();

}  // namespace cohort::cli
