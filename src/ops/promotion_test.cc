// In which dtype the inputs of an element-wise op meet.

#include <gtest/gtest.h>

#include "cohort/ops.h"
#include "cohort/variable.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Doubles = std::vector<double>;

constexpr DType kIntegers[] = {kInt8, kInt16, kInt32, kInt64, kUInt8};
constexpr DType kFloats[] = {kFloat16, kBFloat16, kFloat32, kFloat64};

Tensor vector_of(DType dtype) { return ones({2}, dtype); }

TEST(Promotion, OfTensorsIsThatOfTheirDtypes) {
  EXPECT_EQ((vector_of(kInt32) + vector_of(kFloat16)).dtype(), kFloat16);
  EXPECT_EQ((vector_of(kInt64) * vector_of(kFloat32)).dtype(), kFloat32);
  EXPECT_EQ((vector_of(kFloat16) - vector_of(kBFloat16)).dtype(), kFloat32);
  EXPECT_EQ((vector_of(kUInt8) + vector_of(kInt8)).dtype(), kInt16);
  EXPECT_EQ((vector_of(kInt8) + vector_of(kInt64)).dtype(), kInt64);
  EXPECT_EQ((vector_of(kBool) + vector_of(kUInt8)).dtype(), kUInt8);
  EXPECT_EQ(maximum(vector_of(kFloat32), vector_of(kFloat64)).dtype(), kFloat64);
}

TEST(Promotion, OfANumberFollowsAFloatingTensor) {
  for (const DType dtype : kFloats) {
    EXPECT_EQ((vector_of(dtype) * 2.0).dtype(), dtype);
    EXPECT_EQ((2.0f + vector_of(dtype)).dtype(), dtype);
    EXPECT_EQ((vector_of(dtype) - int64_t{1}).dtype(), dtype);
    EXPECT_EQ((vector_of(dtype) + true).dtype(), dtype);
  }
}

TEST(Promotion, OfAnIntegerNumberFollowsAnIntegerTensor) {
  for (const DType dtype : kIntegers) {
    EXPECT_EQ((vector_of(dtype) * 2).dtype(), dtype);
    EXPECT_EQ((int64_t{2} + vector_of(dtype)).dtype(), dtype);
  }
}

TEST(Promotion, OfAFloatingNumberMakesIntegersFloat32) {
  for (const DType dtype : kIntegers) {
    EXPECT_EQ((vector_of(dtype) * 2.5).dtype(), kFloat32);
    EXPECT_EQ((vector_of(dtype) * 2.5).to_vector<double>(), Doubles({2.5, 2.5}));
  }
  EXPECT_EQ((vector_of(kBool) * 2.5).dtype(), kFloat32);
}

TEST(Promotion, OfNumbersWithTruthIsTheNumbers) {
  EXPECT_EQ((vector_of(kBool) + 2).dtype(), kInt32);
  EXPECT_EQ((vector_of(kBool) + int64_t{2}).dtype(), kInt64);
}

TEST(Promotion, OfTwoNumbersIsThatOfTheirTypes) {
  EXPECT_EQ((Tensor(1) + Tensor(2.5)).dtype(), kFloat64);
  EXPECT_EQ((Tensor(1) + Tensor(2.5f)).dtype(), kFloat32);
}

TEST(Promotion, TakesAVariableForATensor) {
  const Variable v(2.f);
  EXPECT_EQ((v * vector_of(kFloat16)).dtype(), kFloat32);
  EXPECT_EQ((v * 2.0).dtype(), kFloat32);
}

TEST(Promotion, HoldsForComparisonsAndWhere) {
  EXPECT_EQ((Tensor({1, 2}) < 1.5).to_vector<bool>(), std::vector<bool>({true, false}));
  EXPECT_EQ((Tensor({1, 2}) == Tensor({1.0, 2.5})).to_vector<bool>(),
            std::vector<bool>({true, false}));
  EXPECT_EQ(where(Tensor({true, false}), vector_of(kFloat16), Tensor(0.0)).dtype(), kFloat16);
}

TEST(Promotion, OfDivisionIsFloating) {
  for (const DType dtype : {kInt8, kInt16, kUInt8}) {
    EXPECT_EQ((vector_of(dtype) / vector_of(dtype)).dtype(), kFloat32);
  }
  for (const DType dtype : {kInt32, kInt64}) {
    EXPECT_EQ((vector_of(dtype) / vector_of(dtype)).dtype(), kFloat64);
  }
  for (const DType dtype : kFloats) {
    EXPECT_EQ((vector_of(dtype) / 2).dtype(), dtype);
  }
  EXPECT_EQ((Tensor({1, 3}) / 2).to_vector<double>(), Doubles({0.5, 1.5}));
}

TEST(Promotion, OfFloorDivisionAndModStaysWhole) {
  EXPECT_EQ(floor_div(Tensor({-7, 7}), 2).dtype(), kInt32);
  EXPECT_EQ(floor_div(Tensor({-7, 7}), 2).to_vector<double>(), Doubles({-4, 3}));
  EXPECT_EQ((Tensor({-7, 7}) % 3).to_vector<double>(), Doubles({2, 1}));
  EXPECT_EQ((Tensor({-7, 7}) % -3).to_vector<double>(), Doubles({-1, -2}));
}

TEST(Promotion, NamesWhatDoesNotMeet) {
  EXPECT_ERROR(Code::InvalidArgument, "string", Tensor("a") + 1.f);
  EXPECT_ERROR(Code::InvalidArgument, "have no common dtype", Tensor("a") == vector_of(kFloat32));
  EXPECT_ERROR(Code::FailedPrecondition, "input 1 holds nothing", Tensor(1.f) + Tensor());
}

}  // namespace
}  // namespace cohort
