#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cohort/cohort.h"

// What the tests of all_reduce and all_gather inside run() have in common.
namespace cohort {

inline int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

template <typename T>
auto all_reduce(ReduceOp op, const T& value, const CommunicationOptions& options = {}) {
  return get_replica_context()->all_reduce(op, value, options);
}
template <typename T>
auto all_gather(const T& value, int axis) {
  return get_replica_context()->all_gather(value, axis);
}

// One strategy per way of reducing: the quick one between threads, and through an algorithm.
struct Way {
  std::string name;
  std::shared_ptr<CrossDeviceOps> ops;
};
inline std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

class EveryWay : public ::testing::TestWithParam<Way> {
 protected:
  MirroredStrategy two_{{"CPU:0", "CPU:1"}, {.cross_device_ops = GetParam().ops}};
  MirroredStrategy three_{{"CPU:0", "CPU:1", "CPU:2"}, {.cross_device_ops = GetParam().ops}};
};

inline const auto kWays = ::testing::Values(
    Way{"Direct", nullptr}, Way{"OneDevice", std::make_shared<ReductionToOneDevice>()},
    Way{"Hierarchical", std::make_shared<HierarchicalCopyAllReduce>(2)});
inline const auto name_of_way = [](const auto& instance) { return instance.param.name; };

// What each replica returned, as numbers.
using Numbers = std::vector<std::vector<double>>;
inline Numbers numbers(const PerReplica<Tensor>& values) {
  Numbers all;
  for (size_t r = 0; r < values.size(); ++r) all.push_back(values[r].to_vector<double>());
  return all;
}

}  // namespace cohort
