#include <ATen/Functions.h>

#include <atomic>
#include <thread>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "ops/op.h"
#include "support/expect_error.h"
#include "support/find_op.h"
#include "tensor/aten.h"

namespace cohort::internal {
namespace {

Tensor random_tensor(std::vector<int64_t> sizes, at::ScalarType type = at::kDouble) {
  at::manual_seed(static_cast<uint64_t>(sizes.size()) * 31 + static_cast<uint64_t>(sizes[0]));
  return from_aten(at::randn(sizes, type));
}

void expect_close(const Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(aten(actual).sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(aten(actual), expected, 1e-5, 1e-6));
}

at::Tensor seen(const Tensor& x, bool transposed) {
  return transposed ? aten(x).transpose(-2, -1) : aten(x);
}

struct Case {
  std::vector<int64_t> a;
  std::vector<int64_t> b;
};

// Tensors whose product has these sizes once those of them are transposed that are to be.
std::pair<Tensor, Tensor> factors(Case sizes, bool transpose_a, bool transpose_b) {
  if (transpose_a) std::swap(sizes.a.rbegin()[0], sizes.a.rbegin()[1]);
  if (transpose_b) std::swap(sizes.b.rbegin()[0], sizes.b.rbegin()[1]);
  const Tensor a = random_tensor(sizes.a);
  return {a, random_tensor(sizes.b)};
}

class MatmulOf : public ::testing::TestWithParam<Case> {};

TEST_P(MatmulOf, AgreesWithTorchForAllTransposes) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto [a, b] = factors(GetParam(), ta, tb);
      const Tensor product = matmul(a, b, {.transpose_a = ta, .transpose_b = tb});
      expect_close(product, at::matmul(seen(a, ta), seen(b, tb)));
    }
  }
}

TEST_P(MatmulOf, HasTheGradientThatTorchHas) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto [a, b] = factors(GetParam(), ta, tb);
      GradientTape tape;
      tape.watch(a);
      tape.watch(b);
      const Tensor product = matmul(a, b, {.transpose_a = ta, .transpose_b = tb});
      const Gradients gradients = tape.gradient(sum(product * product), {a, b});
      const at::Tensor ta_leaf = aten(a).clone().requires_grad_();
      const at::Tensor tb_leaf = aten(b).clone().requires_grad_();
      at::matmul(ta ? ta_leaf.transpose(-2, -1) : ta_leaf, tb ? tb_leaf.transpose(-2, -1) : tb_leaf)
          .square()
          .sum()
          .backward();
      expect_close(gradients[0], ta_leaf.grad());
      expect_close(gradients[1], tb_leaf.grad());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatmulOf,
                         ::testing::Values(Case{{2, 3}, {3, 4}}, Case{{1, 1}, {1, 1}},
                                           Case{{5, 2, 3}, {5, 3, 4}}, Case{{5, 2, 3}, {3, 4}},
                                           Case{{2, 3}, {5, 3, 4}}, Case{{1, 2, 3}, {5, 3, 4}},
                                           Case{{4, 1, 2, 3}, {5, 3, 4}},
                                           Case{{2, 5, 2, 3}, {2, 1, 3, 4}},
                                           Case{{2, 3, 2, 2, 3}, {2, 1, 2, 3, 4}}));

TEST(Matmul, OfAnEmptyInnerDimensionIsZero) {
  const Tensor product = matmul(random_tensor({2, 0}), random_tensor({0, 3}));
  EXPECT_EQ(product.to_vector<double>(), std::vector<double>(6, 0.0));
  const Tensor batched = matmul(random_tensor({4, 2, 0}), random_tensor({4, 0, 3}));
  EXPECT_EQ(batched.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(batched.to_vector<double>(), std::vector<double>(24, 0.0));
  EXPECT_EQ(matmul(random_tensor({0, 2}), random_tensor({2, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(matmul(random_tensor({0, 2, 3}), random_tensor({3, 3})).shape(), (Shape{0, 2, 3}));
}

TEST(Matmul, TakesIntegersAndSixteenBitFloats) {
  const Tensor a({{1, 2}, {3, 4}});
  for (const DType dtype : {kInt8, kInt16, kInt32, kInt64, kUInt8, kFloat16, kBFloat16, kFloat32}) {
    const Tensor product = matmul(cast(a, dtype), cast(a, dtype));
    EXPECT_EQ(product.dtype(), dtype);
    EXPECT_EQ(product.to_vector<int>(), (std::vector<int>{7, 10, 15, 22}));
  }
}

TEST(Matmul, LeavesOutTheGradientThatNobodyWants) {
  const Tensor a = random_tensor({2, 3});
  const Tensor b = random_tensor({3, 4});
  const OpDef& op = find_op("MatMul");
  const OpCall call{.op = &op,
                    .attrs = {{"transpose_a", false}, {"transpose_b", false}},
                    .inputs = {a, b},
                    .outputs = {matmul(a, b)},
                    .wanted = 0b10};
  const std::vector<Tensor> g = {random_tensor({2, 4})};
  const Gradients gradients = op.gradient(call, g);
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_TRUE(gradients[1].defined());
}

TEST(Matmul, ErrorsNameBothShapes) {
  const Tensor a = random_tensor({2, 3});
  expect_error([&] { matmul(a, a); }, "inner sizes differ: 3 and 2 of shapes (2, 3) and (2, 3)");
  expect_error(
      [&] {
        matmul(a, random_tensor({3, 4}), {.transpose_a = true});
      },
      "(2, 3) (transposed) and (3, 4)");
  expect_error([&] { matmul(a, random_tensor({3})); }, "got shapes (2, 3) and (3,)");
  expect_error([&] { matmul(Tensor(2.0), a); }, "got shapes () and (2, 3)");
  expect_error(
      [&] {
        matmul(random_tensor({2, 2, 3}), random_tensor({4, 3, 2}));
      },
      "do not broadcast");
  expect_error([&] { matmul(a, cast(random_tensor({3, 4}), kFloat32)); }, "one dtype");
  expect_error([&] { matmul(cast(a, kBool), cast(a, kBool)); }, "is bool");
  expect_error([&] { matmul(Tensor({"a"}), a); }, "is string");
}

TEST(Matmul, GivesTheSameOnSeveralThreadsAtOnce) {
  // Small and transposed: what a BLAS copies into its scratch memory first.
  const Tensor a = random_tensor({3, 8});
  const Tensor b = random_tensor({3, 6});
  const auto product = [&] { return matmul(a, b, {.transpose_a = true}).to_vector<float>(); };
  const std::vector<float> expected = product();
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 50'000; ++repeat) wrong += product() != expected;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace cohort::internal
