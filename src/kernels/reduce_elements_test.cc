#include "kernels/reduce_elements.h"

#include <gtest/gtest.h>

#include <vector>

namespace cohort::internal {
namespace {

template <typename T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

TEST(ReduceElementsInto, ReplacesTheSources) {
  for (const size_t sources : {1, 2, 3, 4, 5}) {
    std::vector<std::vector<float>> values(sources, std::vector<float>(3000));
    std::vector<std::byte*> targets;
    for (size_t r = 0; r < sources; ++r) {
      for (size_t i = 0; i < 3000; ++i) values[r][i] = static_cast<float>(i * (r + 1));
      targets.push_back(bytes(values[r]));
    }
    const std::vector<const std::byte*> from(targets.begin(), targets.end());
    reduce_elements_into(targets, {.op = ReduceOp::Sum, .dtype = kFloat32, .sources = from}, 10,
                         2990);
    const auto total = static_cast<float>(sources * (sources + 1) / 2);
    for (size_t r = 0; r < sources; ++r) {
      EXPECT_EQ(values[r][9], 9.f * static_cast<float>(r + 1));
      for (size_t i = 10; i < 2990; ++i) ASSERT_EQ(values[r][i], static_cast<float>(i) * total);
      EXPECT_EQ(values[r][2990], 2990.f * static_cast<float>(r + 1));
    }
  }
}

TEST(ReduceElements, DividesByTheDivisorThatIsGiven) {
  std::vector<int32_t> sum{10, 20};
  std::vector<double> mean(2);
  const std::byte* source = bytes(sum);
  reduce_elements({.op = ReduceOp::Mean,
                   .dtype = kInt32,
                   .sources = {&source, 1},
                   .target = bytes(mean),
                   .divisor = 4},
                  0, 2);
  EXPECT_EQ(mean, (std::vector<double>{2.5, 5.}));
}

TEST(ReduceElements, OfBoolsAreAllAndAny) {
  std::vector<uint8_t> a{0, 0, 1, 1};
  std::vector<uint8_t> b{0, 1, 0, 1};
  std::vector<uint8_t> result(4);
  const std::vector<const std::byte*> sources{bytes(a), bytes(b)};
  const auto reduce = [&](ReduceOp op) {
    reduce_elements({.op = op, .dtype = kBool, .sources = sources, .target = bytes(result)}, 0, 4);
    return result;
  };
  EXPECT_EQ(reduce(ReduceOp::Max), (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(reduce(ReduceOp::Min), (std::vector<uint8_t>{0, 0, 0, 1}));
  EXPECT_EQ(reduce(ReduceOp::Product), (std::vector<uint8_t>{0, 0, 0, 1}));
}

}  // namespace
}  // namespace cohort::internal
