#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace cohort::internal {

// The ways to all-reduce.
enum class Algorithm {
  // In shared memory: every member adds up everything, or only its slice, which the others copy.
  Everything,
  Slices,
  // By messages: see algorithms.h.
  Doubling,
  HalvingDoubling,
  Ring,
};
std::string_view name_of(Algorithm algorithm);

// How far apart the members are.
enum class Distance { SharedMemory, SameHost, Network };

// Which algorithm is used for how many bytes. The default tables were measured once; calibrating a
// group writes a row for each size that it tries.
struct AlgorithmTable {
  struct Row {
    size_t up_to_bytes;
    Algorithm algorithm;
  };
  std::vector<Row> rows;  // by size; the last one is for everything beyond, too

  Algorithm choose(size_t bytes) const;
};

AlgorithmTable default_table(Distance distance, int members);
// The algorithms that are possible at that distance.
std::vector<Algorithm> candidates(Distance distance);

}  // namespace cohort::internal
