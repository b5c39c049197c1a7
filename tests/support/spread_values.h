#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "tensor/devices.h"

// Values whose components are on several devices of this process, and NCCL's stand-in.

namespace cohort::test {

using Kind = DistributedValue::Kind;

inline std::string cpu(size_t index) { return canonical_device("CPU:" + std::to_string(index)); }

// Component k on CPU:k.
inline DistributedValue spread(const std::vector<Gradient>& values) {
  internal::ensure_cpu_devices(static_cast<int>(values.size()));
  std::vector<Gradient> placed;
  for (size_t i = 0; i < values.size(); ++i) {
    const DeviceScope on(cpu(i));
    if (values[i].is_sparse()) {
      const IndexedSlices& slices = values[i].slices();
      placed.emplace_back(
          IndexedSlices{identity(slices.values), identity(slices.indices), slices.dense_shape});
    } else {
      placed.emplace_back(identity(values[i].dense()));
    }
  }
  return {Kind::PerReplica, std::move(placed)};
}

// `count` components of one shape; component k is filled with numbers of its own.
inline DistributedValue numbered(size_t count, const Shape& shape, DType dtype = kFloat32) {
  std::vector<Gradient> values;
  for (size_t k = 0; k < count; ++k) {
    const Tensor base = reshape(range(shape.num_elements()), shape);
    values.emplace_back(cast(base + static_cast<int64_t>(100 * k + 1), dtype));
  }
  return spread(values);
}

inline Tensor serial_sum(const DistributedValue& value) {
  Tensor total = value[0].dense();
  for (size_t k = 1; k < value.size(); ++k) total = total + value[k].dense();
  return total;
}

inline void expect_mirrored(const DistributedValue& result, const Tensor& expected,
                            const std::vector<std::string>& devices) {
  EXPECT_EQ(result.kind(), Kind::Mirrored);
  EXPECT_EQ(result.devices(), devices);
  for (size_t k = 0; k < result.size(); ++k) {
    const Tensor copy = result[k].dense();
    ASSERT_EQ(copy.dtype(), expected.dtype());
    ASSERT_EQ(copy.shape(), expected.shape());
    EXPECT_EQ(copy.to_vector<double>(), expected.to_vector<double>());
  }
}

// NCCL's calls, made on host memory by the stand-in.
class HostNccl : public NcclAllReduce {
 public:
  explicit HostNccl(int num_packs = 1) : NcclAllReduce(num_packs) {}

 protected:
  bool reaches(const DeviceName&) const override { return true; }
};

inline void use_stand_in() { setenv("COHORT_NCCL_LIBRARY", COHORT_NCCL_STAND_IN, 1); }

}  // namespace cohort::test
