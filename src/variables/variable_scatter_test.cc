#include <gtest/gtest.h>

#include <limits>

#include "cohort/ops.h"
#include "cohort/variable.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Doubles = std::vector<double>;
using Scatter = Tensor (Variable::*)(const IndexedSlices&, Site);

struct Case {
  const char* name;
  Scatter scatter;
  Doubles expected;  // of {{8, 8}, {6, 6}, {4, 4}} after rows 2, 0, 2 met {2, 4}, {2, 16}, {8, 2}
};

class EveryScatter : public ::testing::TestWithParam<Case> {};

Variable table(DType dtype) { return Variable({{8, 8}, {6, 6}, {4, 4}}, {.dtype = dtype}); }

IndexedSlices rows(DType dtype) {
  return {cast(Tensor({{2, 4}, {2, 16}, {8, 2}}), dtype), Tensor({2, 0, 2}), {3, 2}};
}

TEST_P(EveryScatter, ChangesRowsInOrder) {
  for (const DType dtype :
       {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kInt16, kInt32, kInt64, kUInt8}) {
    SCOPED_TRACE(to_string(dtype));
    Variable v = table(dtype);
    Doubles expected = GetParam().expected;
    if (!is_floating(dtype)) {
      for (double& value : expected) value = static_cast<double>(static_cast<int64_t>(value));
    }
    if (dtype == kUInt8) {
      for (double& value : expected)
        value = static_cast<double>(static_cast<uint8_t>(static_cast<int>(value)));
    }
    if (dtype == kInt8) {
      for (double& value : expected)
        value = static_cast<double>(static_cast<int8_t>(static_cast<int>(value)));
    }
    EXPECT_EQ((v.*GetParam().scatter)(rows(dtype), Site::here()).to_vector<double>(), expected);
    EXPECT_EQ(v.read_value().to_vector<double>(), expected);
  }
}

TEST_P(EveryScatter, ChangesNothingWhenAnIndexIsOutside) {
  for (const int64_t outside : {int64_t{3}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    Variable v = table(kFloat32);
    const IndexedSlices slices{ones({2, 2}), Tensor({int64_t{0}, outside}), {3, 2}};
    EXPECT_ERROR(Code::InvalidArgument,
                 "[Scatter] row " + std::to_string(outside) +
                     " is outside of variable 'Variable', which has 3 rows",
                 (v.*GetParam().scatter)(slices, Site::here()));
    EXPECT_EQ(v.read_value().to_vector<double>(), Doubles({8, 8, 6, 6, 4, 4}));
  }
}

TEST_P(EveryScatter, TakesNoRows) {
  Variable v = table(kFloat32);
  (v.*GetParam().scatter)({zeros({0, 2}), zeros({0}, kInt64), {3, 2}}, Site::here());
  EXPECT_EQ(v.read_value().to_vector<double>(), Doubles({8, 8, 6, 6, 4, 4}));
}

TEST_P(EveryScatter, WorksOnTransposedValues) {
  Variable v(transpose(Tensor({{8.f, 6.f, 4.f}, {8.f, 6.f, 4.f}})));
  (v.*GetParam().scatter)(rows(kFloat32), Site::here());
  EXPECT_EQ(v.read_value().to_vector<double>(), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryScatter,
    ::testing::Values(Case{"Update", &Variable::scatter_update, {2, 16, 6, 6, 8, 2}},
                      Case{"Add", &Variable::scatter_add, {10, 24, 6, 6, 14, 10}},
                      Case{"Sub", &Variable::scatter_sub, {6, -8, 6, 6, -6, -2}},
                      Case{"Mul", &Variable::scatter_mul, {16, 128, 6, 6, 64, 32}},
                      Case{"Div", &Variable::scatter_div, {4, 0.5, 6, 6, 0.25, 0.5}},
                      Case{"Min", &Variable::scatter_min, {2, 8, 6, 6, 2, 2}},
                      Case{"Max", &Variable::scatter_max, {8, 16, 6, 6, 8, 4}}),
    [](const auto& param) { return param.param.name; });

TEST(Scatter, WorksOnVectors) {
  Variable v({10.f, 10.f, 10.f, 10.f});
  v.scatter_add({Tensor({4.f, 2.f, 6.f}), Tensor({1, 1, 3}), {4}});
  EXPECT_EQ(v.read_value().to_vector<double>(), Doubles({10, 16, 10, 16}));
}

TEST(Scatter, WrapsIntegersAround) {
  constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
  Variable v({kSmallest, int64_t{1}});
  const IndexedSlices first{Tensor({int64_t{-1}}), Tensor({0}), {2}};
  EXPECT_EQ(v.scatter_div(first).at<int64_t>({0}), kSmallest);
  EXPECT_EQ(v.scatter_mul(first).at<int64_t>({0}), kSmallest);
  EXPECT_EQ(v.scatter_add(first).at<int64_t>({0}), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(v.scatter_sub(first).at<int64_t>({0}), kSmallest);
}

TEST(Scatter, ConvertsValues) {
  Variable v({1.f, 2.f});
  v.scatter_add({Tensor({5}), Tensor({int8_t{1}}), {2}});
  EXPECT_EQ(v.read_value().to_vector<double>(), Doubles({1, 7}));
}

TEST(Scatter, ChoosesAmongTruths) {
  Variable v({true, false});
  v.scatter_max({Tensor({true}), Tensor({1}), {2}});
  EXPECT_EQ(v.read_value().to_vector<bool>(), std::vector<bool>({true, true}));
  EXPECT_ERROR(Code::InvalidArgument, "[Scatter] variable 'Variable' is bool, which has no arithm",
               v.scatter_add({Tensor({true}), Tensor({1}), {2}}));
}

TEST(Scatter, NamesWrongRows) {
  Variable v(zeros({3, 2}), {.name = "w"});
  EXPECT_ERROR(Code::InvalidArgument,
               "rows for variable 'w' of shape (3, 2) need a vector of indices and one row of "
               "values each, got indices of shape (2,) and values of shape (1, 2)",
               v.scatter_add({ones({1, 2}), Tensor({0, 1}), {3, 2}}));
  EXPECT_ERROR(Code::InvalidArgument, "values of shape (1, 3)",
               v.scatter_add({ones({1, 3}), Tensor({0}), {3, 2}}));
  EXPECT_ERROR(Code::InvalidArgument, "indices of shape ()",
               v.scatter_add({ones({1, 2}), Tensor(0), {3, 2}}));
  EXPECT_ERROR(Code::InvalidArgument, "the indices must be integers, got float32",
               v.scatter_add({ones({1, 2}), Tensor({0.f}), {3, 2}}));
  EXPECT_ERROR(Code::InvalidArgument, "of shape ()",
               Variable(1.f).scatter_add({ones({1}), Tensor({0}), {}}));
  Variable whole({1, 2});
  EXPECT_ERROR(Code::InvalidArgument, "[Scatter] variable 'Variable' is int32, got a float32",
               whole.scatter_add({Tensor({1.f}), Tensor({0}), {2}}));
  EXPECT_ERROR(Code::InvalidArgument, "an integer is divided by zero",
               whole.scatter_div({Tensor({1, 0}), Tensor({0, 1}), {2}}));
  EXPECT_EQ(whole.read_value().to_vector<double>(), Doubles({1, 2}));
}

}  // namespace
}  // namespace cohort
