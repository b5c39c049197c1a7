#pragma once

#include <string>

#include "cohort/readers.h"
#include "ratio.h"

// The parts of the benchmark of input pipelines. `directory` is for files, which are removed.
namespace cohort::bench {

void pipelines();
void tfrecords(const std::string& directory);
void idx(const std::string& directory);
void csv(const std::string& directory);
void memory(const std::string& directory);

// Keeps results alive.
inline void use(double value) {
  static volatile double sink = 0;
  sink = sink + value;
}

inline void walk(const data::Dataset& dataset) {
  for (const data::Element& element : dataset) use(static_cast<double>(element.size()));
}

}  // namespace cohort::bench
