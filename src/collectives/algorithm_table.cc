#include "collectives/algorithm_table.h"

#include <cstdint>

namespace cohort::internal {

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Everything:
      return "everything";
    case Algorithm::Slices:
      return "slices";
    case Algorithm::Doubling:
      return "doubling";
    case Algorithm::HalvingDoubling:
      return "halving-doubling";
    case Algorithm::Ring:
      return "ring";
  }
  return "unknown";
}

Algorithm AlgorithmTable::choose(size_t bytes) const {
  for (const Row& row : rows) {
    if (bytes <= row.up_to_bytes) return row.algorithm;
  }
  return rows.back().algorithm;
}

AlgorithmTable default_table(Distance distance, int members) {
  constexpr size_t kKilobyte = 1024;
  constexpr size_t kAny = SIZE_MAX;
  switch (distance) {
    case Distance::SharedMemory:
      if (members <= 2) return {{{kAny, Algorithm::Everything}}};
      return {{{8 * kKilobyte, Algorithm::Everything}, {kAny, Algorithm::Slices}}};
    case Distance::SameHost:
      return {{{16 * kKilobyte, Algorithm::Doubling},
               {256 * kKilobyte, Algorithm::HalvingDoubling},
               {kAny, Algorithm::Ring}}};
    case Distance::Network:
      break;
  }
  return {{{8 * kKilobyte, Algorithm::Doubling},
           {1024 * kKilobyte, Algorithm::HalvingDoubling},
           {kAny, Algorithm::Ring}}};
}

std::vector<Algorithm> candidates(Distance distance) {
  if (distance == Distance::SharedMemory) return {Algorithm::Everything, Algorithm::Slices};
  return {Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring};
}

}  // namespace cohort::internal
