#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace cohort::internal {

// The ways to all-reduce.
enum class Algorithm {
  // In shared memory: everybody adds up everything, or each its slice, which the others then copy.
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

// Which algorithm is used for how many bytes. What is there at first was measured once; a
// calibration of a group writes a row for each size that it tries.
struct AlgorithmTable {
  struct Row {
    size_t up_to_bytes;
    Algorithm algorithm;
  };
  std::vector<Row> rows;  // by size; the last one is for everything beyond, too

  Algorithm choose(size_t bytes) const;
};

AlgorithmTable default_table(Distance distance, int members);
// All that are possible at that distance.
std::vector<Algorithm> candidates(Distance distance);

}  // namespace cohort::internal
