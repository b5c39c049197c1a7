#include "kernels/max_pool.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "cohort/nn_ops.h"
#include "tensor/aten.h"

namespace cohort::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Planes of small numbers, so that many are equal, some of them special.
at::Tensor planes(std::vector<int64_t> sizes, at::ScalarType dtype) {
  const at::Tensor x = at::randint(-3, 4, sizes).to(dtype);
  const at::Tensor lot = at::randint(0, 12, sizes);
  return x.masked_fill(lot == 0, kInfinity)
      .masked_fill(lot == 1, -kInfinity)
      .masked_fill(lot == 2, std::numeric_limits<double>::quiet_NaN());
}

struct Pooled {
  at::Tensor values;
  at::Tensor indices;
};

Pooled pool(const PoolPlan& plan, const at::Tensor& x) {
  const std::vector<int64_t> sizes = {x.size(0), x.size(1), plan.output[0], plan.output[1]};
  Pooled pooled{at::empty(sizes, x.options()), at::empty(sizes, at::kLong)};
  const auto run = [&]<typename T>(T) {
    max_pool(plan, x.size(0) * x.size(1), x.data_ptr<T>(), pooled.values.data_ptr<T>(),
             pooled.indices.data_ptr<int64_t>());
  };
  x.scalar_type() == at::kFloat ? run(0.f) : run(0.);
  return pooled;
}

// Windows by size, stride, padding and plane.
struct PoolCase {
  PoolPlan::Sides size, stride, padding, plane;
};
constexpr PoolCase kCases[] = {
    {{2, 2}, {2, 2}, {0, 0}, {28, 28}}, {{2, 2}, {2, 2}, {0, 0}, {5, 7}},
    {{3, 3}, {1, 1}, {1, 1}, {6, 40}},  {{3, 2}, {3, 4}, {1, 1}, {9, 23}},
    {{5, 4}, {1, 2}, {2, 2}, {3, 3}},   {{1, 1}, {1, 1}, {0, 0}, {4, 9}},
    {{7, 5}, {5, 3}, {3, 2}, {7, 30}},  {{3, 3}, {3, 3}, {0, 0}, {10, 31}},
    {{2, 2}, {2, 2}, {0, 0}, {10, 10}}, {{2, 2}, {2, 2}, {0, 0}, {4, 16}},
    {{2, 2}, {2, 2}, {0, 0}, {3, 9}},   {{2, 2}, {2, 2}, {0, 0}, {6, 13}},
};

class MaxPoolOf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(MaxPoolOf, ChoosesWhatTheKernelLibraryDoes) {
  at::manual_seed(1);
  for (const PoolCase& each : kCases) {
    const at::Tensor x = planes({2, 3, each.plane[0], each.plane[1]}, GetParam());
    const auto [values, indices] =
        at::max_pool2d_with_indices(x, each.size, each.stride, each.padding);
    const Pooled ours = pool({.size = each.size,
                              .stride = each.stride,
                              .before = each.padding,
                              .plane = each.plane,
                              .output = {values.size(2), values.size(3)},
                              .row_length = each.plane[1]},
                             x);
    EXPECT_TRUE(at::allclose(ours.values, values, 0, 0, true)) << values.sizes();
    EXPECT_TRUE(at::equal(ours.indices, indices)) << values.sizes();
  }
}

INSTANTIATE_TEST_SUITE_P(Dtype, MaxPoolOf, ::testing::Values(at::kFloat, at::kDouble),
                         [](const auto& each) { return c10::toString(each.param); });

TEST(MaxPool, CountsInPlanesWithExtraColumns) {
  const at::Tensor x = at::arange(6, at::kFloat).view({1, 1, 2, 3});
  const Pooled pooled = pool({.size = {2, 2},
                              .stride = {2, 2},
                              .before = {0, 0},
                              .plane = {2, 3},
                              .output = {1, 2},
                              .row_length = 4},
                             x);
  EXPECT_TRUE(at::equal(pooled.values.flatten(), at::tensor({4.f, 5.f})));
  EXPECT_TRUE(at::equal(pooled.indices.flatten(), at::tensor({5l, 6l})));
}

TEST(MaxPool, TakesTensorsThatLieInMemoryInAnotherOrder) {
  const at::Tensor x = at::randn({2, 3, 6, 8});
  const Tensor turned = from_aten(x.transpose(0, 3).contiguous().transpose(0, 3));
  EXPECT_TRUE(at::equal(aten(nn::max_pool2d(turned, 2)), at::max_pool2d(x, 2)));
}

}  // namespace
}  // namespace cohort::internal
