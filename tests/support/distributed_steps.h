#pragma once

// What the tests of distributed datasets share.

#include <algorithm>
#include <iterator>
#include <vector>

#include "cohort/strategy.h"
#include "support/datasets.h"

namespace cohort {

using Rows = std::vector<std::vector<int64_t>>;  // of one step: those of each replica
using Steps = std::vector<Rows>;

inline std::vector<int64_t> values_of(const data::Element& element) {
  return element.tensors().front().to_vector<int64_t>();
}

inline Rows rows_of(const DistributedElement& element) {
  Rows rows;
  for (size_t replica = 0; replica < element.size(); ++replica) {
    rows.push_back(values_of(element[replica]));
  }
  return rows;
}

// What range-for gives.
inline Steps steps_of(const DistributedDataset& dataset) {
  Steps steps;
  for (const DistributedElement& element : dataset) steps.push_back(rows_of(element));
  return steps;
}

// What next_optional() gives.
inline Steps rest_of(DistributedIterator from) {
  Steps steps;
  while (const auto element = from.next_optional()) steps.push_back(rows_of(*element));
  return steps;
}

inline std::vector<int64_t> samples_of(const Steps& steps) {
  std::vector<int64_t> all;
  for (const Rows& rows : steps) {
    for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

// Of all workers, sorted.
inline std::vector<int64_t> all_samples(const std::vector<Steps>& workers) {
  std::vector<int64_t> all;
  for (const Steps& steps : workers) std::ranges::copy(samples_of(steps), std::back_inserter(all));
  std::ranges::sort(all);
  return all;
}

// A strategy of that many logical devices.
inline std::unique_ptr<MirroredStrategy> mirrored(int replicas) {
  std::vector<std::string> devices;
  for (int i = 0; i < replicas; ++i) devices.push_back("CPU:" + std::to_string(i));
  return std::make_unique<MirroredStrategy>(devices);
}

inline data::Dataset with_policy(const data::Dataset& dataset, data::AutoShardPolicy policy) {
  return dataset.options({.auto_shard_policy = policy});
}

}  // namespace cohort
