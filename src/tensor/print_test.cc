#include "tensor/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "support/expect_error.h"
#include "tensor/aten.h"

namespace cohort {
namespace {

constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfF = std::numeric_limits<float>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// 0, 1, 2, ... in that shape.
Tensor range(const Shape& shape) {
  std::vector<int> values(static_cast<size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::from(std::move(values), shape);
}

struct Case {
  Tensor tensor;
  const char* text;
};

// The texts were printed by numpy 2.2.
TEST(FormatValues, IsWhatNumpyPrints) {
  const Case cases[] = {
      {Tensor(11.0f), "11."},
      {Tensor(0.0f), "0."},
      {Tensor(-0.0f), "-0."},
      {Tensor(0.1f), "0.1"},
      {Tensor(0.33333334f), "0.33333334"},
      {Tensor(100000000.0f), "1.e+08"},
      {Tensor(1e-04f), "0.0001"},
      {Tensor(9e-05f), "9.e-05"},
      {Tensor(kNanF), "nan"},
      {Tensor(-kInfF), "-inf"},
      {Tensor(1e+38f), "1.e+38"},
      {Tensor(1.5e-42f), "1.5e-42"},
      {Tensor(123456.79f), "123456.79"},
      {Tensor(-2.5f), "-2.5"},
      {Tensor(11.0), "11."},
      {Tensor(0.3333333333333333), "0.33333333"},
      {Tensor(1e+16), "1.e+16"},
      {Tensor(1e-05), "1.e-05"},
      {Tensor(5e-324), "5.e-324"},
      {Tensor(1.7976931348623157e+308), "1.79769313e+308"},
      {Tensor(123456789.123), "1.23456789e+08"},
      {Tensor(0.30000000000000004), "0.3"},
      {Tensor(-1e+100), "-1.e+100"},
      {Tensor({1.0f}), "[1.]"},
      {Tensor({1.0f, 2.0f}), "[1. 2.]"},
      {Tensor({1.5f, 2.0f}), "[1.5 2. ]"},
      {Tensor({1.0f, -2.0f}), "[ 1. -2.]"},
      {Tensor({0.1f, 0.25f, 3.0f}), "[0.1  0.25 3.  ]"},
      {Tensor({1.0f, 1000.0f}), "[   1. 1000.]"},
      {Tensor({1.0f, 1001.0f}), "[1.000e+00 1.001e+03]"},
      {Tensor({0.001f, 1.0f}), "[0.001 1.   ]"},
      {Tensor({0.0009f, 1.0f}), "[9.e-04 1.e+00]"},
      {Tensor({1e-04f, 0.01f}), "[0.0001 0.01  ]"},
      {Tensor({1e-05f, 1.0f}), "[1.e-05 1.e+00]"},
      {Tensor({10000000.0f, 1.0f}), "[1.e+07 1.e+00]"},
      {Tensor({100000000.0f, 1.0f}), "[1.e+08 1.e+00]"},
      {Tensor({kNanF, 1.0f}), "[nan  1.]"},
      {Tensor({kInfF, 1.25f}), "[ inf 1.25]"},
      {Tensor({-kInfF, 1.0f}), "[-inf   1.]"},
      {Tensor({kNanF, kNanF}), "[nan nan]"},
      {Tensor({kInfF, -kInfF, kNanF}), "[ inf -inf  nan]"},
      {Tensor({0.0f, 0.0f}), "[0. 0.]"},
      {Tensor({-0.0f, 1.0f}), "[-0.  1.]"},
      {Tensor({0.0f, 1e-10f}), "[0.e+00 1.e-10]"},
      {Tensor({10000000000.0f, kNanF}), "[1.e+10    nan]"},
      {Tensor({10000000000.0f, -kInfF}), "[1.e+10   -inf]"},
      {Tensor({16777216.0f, 2.0f}), "[1.6777216e+07 2.0000000e+00]"},
      {Tensor({33896448.0f, 1.0f}), "[3.389645e+07 1.000000e+00]"},
      {Tensor({72577936.0f}), "[72577936.]"},
      {Tensor({0.33333334f, 0.6666667f}), "[0.33333334 0.6666667 ]"},
      {Tensor({3.1415927f, 2.7182817f}), "[3.1415927 2.7182817]"},
      {Tensor({1e-45f, 1.0f}), "[1.e-45 1.e+00]"},
      {Tensor({1.1f, 22.22f, 333.333f}), "[  1.1    22.22  333.333]"},
      {Tensor({-1e-20f, 1e+20f}), "[-1.e-20  1.e+20]"},
      {Tensor({100.0f, 0.5f, -0.25f}), "[100.     0.5   -0.25]"},
      {Tensor({0.3333333333333333, 0.6666666666666666}), "[0.33333333 0.66666667]"},
      {Tensor({1e-100, 1e+100}), "[1.e-100 1.e+100]"},
      {Tensor({1e-100, 1.0}), "[1.e-100 1.e+000]"},
      {Tensor({1.123456789012, 2.0}), "[1.12345679 2.        ]"},
      {Tensor({123456.123456789}), "[123456.12345679]"},
      {Tensor({0.1, 0.2, 0.30000000000000004}), "[0.1 0.2 0.3]"},
      {Tensor({1000000000000000.0, 1.0}), "[1.e+15 1.e+00]"},
      {Tensor({99999999.5}), "[99999999.5]"},
      {Tensor({12345678.12345679}), "[12345678.12345679]"},
      {Tensor({1e+300, -1e-300}), "[ 1.e+300 -1.e-300]"},
      {Tensor({kNan, 0.3333333333333333}), "[       nan 0.33333333]"},
      {Tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}), "[[1. 2.]\n [3. 4.]]"},
      {Tensor({{1.5f}, {-2.25f}}), "[[ 1.5 ]\n [-2.25]]"},
      {Tensor({{1e-09f, 1.0f}, {2.0f, 3.0f}}), "[[1.e-09 1.e+00]\n [2.e+00 3.e+00]]"},
      {Tensor({{1}, {2}, {1}, {2}}), "[[1]\n [2]\n [1]\n [2]]"},
      {Tensor(7), "7"},
      {Tensor(-3), "-3"},
      {Tensor({1, -10, 100}), "[  1 -10 100]"},
      {Tensor({{1, -1}, {10, 1000}}), "[[   1   -1]\n [  10 1000]]"},
      {Tensor({INT64_MIN, 9223372036854775807L}), "[-9223372036854775808  9223372036854775807]"},
      {Tensor({0L}), "[0]"},
      {Tensor(5L), "5"},
      {Tensor(true), "True"},
      {Tensor(false), "False"},
      {Tensor({true, false}), "[ True False]"},
      {Tensor({{true}, {false}}), "[[ True]\n [False]]"},
      {Tensor({{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"},
      {Tensor({{{{0, 1}, {2, 3}}}, {{{4, 5}, {6, 7}}}}),
       "[[[[0 1]\n   [2 3]]]\n\n\n [[[4 5]\n   [6 7]]]]"},
      {Tensor({{{{0.0f}, {0.5f}}, {{1.0f}, {1.5f}}}, {{{2.0f}, {2.5f}}, {{3.0f}, {3.5f}}}}),
       "[[[[0. ]\n   [0.5]]\n\n  [[1. ]\n   [1.5]]]\n\n\n [[[2. ]\n   [2.5]]\n\n  [[3. ]\n   "
       "[3.5]]]]"},
  };
  for (const Case& one : cases) EXPECT_EQ(format_values(one.tensor), one.text);
}

TEST(FormatValues, OfSmallFloatsHasNoMoreDigitsThanTheyHave) {
  EXPECT_EQ(format_values(Tensor({float16(0.1f), float16(65504.f), float16(2.f)})),
            "[1.00e-01 6.55e+04 2.00e+00]");
  EXPECT_EQ(format_values(Tensor({float16(0.1f), float16(1 / 3.f)})), "[0.1    0.3333]");
  EXPECT_EQ(format_values(Tensor(float16(39904.f))), "39904.");
  EXPECT_EQ(format_values(Tensor(float16(0.015625f))), "0.01563");
  EXPECT_EQ(format_values(Tensor({bfloat16(0.1f), bfloat16(1 / 3.f)})), "[0.1   0.334]");
  EXPECT_EQ(format_values(Tensor(bfloat16(3e38f))), "3.e+38");
  EXPECT_EQ(format_values(Tensor({bfloat16(1.f), bfloat16(-2.5f)})), "[ 1.  -2.5]");
}

TEST(FormatValues, OfEmptyTensorsIsAPairOfBrackets) {
  for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{2, 0}, Shape{2, 0, 3}}) {
    EXPECT_EQ(format_values(range(shape)), "[]");
  }
  EXPECT_EQ(format_values(Tensor::from(std::vector<std::string>{})), "[]");
}

TEST(FormatValues, WrapsLongRows) {
  EXPECT_EQ(format_values(range({40})),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
            " 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]");
  EXPECT_EQ(format_values(range({2, 12}), {.line_width = 21}),
            "[[ 0  1  2  3  4  5\n"
            "   6  7  8  9 10 11]\n"
            " [12 13 14 15 16 17\n"
            "  18 19 20 21 22 23]]");
  EXPECT_EQ(format_values(range({3}), {.line_width = 1}), "[0\n 1\n 2]");
  EXPECT_EQ(format_values(Tensor({0.25f, 1.f, 0.5f}), {.line_width = 10}), "[0.25\n 1.\n 0.5 ]");
}

TEST(FormatValues, ShowsAThousandElementsAndNoMore) {
  EXPECT_EQ(format_values(range({1000})).find("..."), std::string::npos);
  EXPECT_EQ(format_values(range({1001})), "[   0    1    2 ...  998  999 1000]");
}

TEST(FormatValues, ShortensEveryLongDimension) {
  EXPECT_EQ(format_values(range({40, 50})),
            "[[   0    1    2 ...   47   48   49]\n"
            " [  50   51   52 ...   97   98   99]\n"
            " [ 100  101  102 ...  147  148  149]\n"
            " ...\n"
            " [1850 1851 1852 ... 1897 1898 1899]\n"
            " [1900 1901 1902 ... 1947 1948 1949]\n"
            " [1950 1951 1952 ... 1997 1998 1999]]");
  EXPECT_EQ(format_values(range({8, 1, 200}), {.edge_items = 1}),
            "[[[   0 ...  199]]\n"
            "\n"
            " ...\n"
            "\n"
            " [[1400 ... 1599]]]");
  EXPECT_EQ(format_values(range({2, 501})),
            "[[   0    1    2 ...  498  499  500]\n"
            " [ 501  502  503 ...  999 1000 1001]]");
}

TEST(FormatValues, DigitsFollowWhatIsShown) {
  std::vector<float> values(1001, 1.f);
  values[500] = 0.123f;
  EXPECT_EQ(format_values(Tensor::from(std::move(values))), "[1. 1. 1. ... 1. 1. 1.]");
}

TEST(FormatValues, ObeysItsOptions) {
  EXPECT_EQ(format_values(range({10}), {.threshold = 5, .edge_items = 2}), "[0 1 ... 8 9]");
  EXPECT_EQ(format_values(Tensor({1 / 3., 0.001 / 3.}), {.precision = 2}), "[0.33 0.  ]");
  EXPECT_EQ(format_values(Tensor({2 / 3.}), {.precision = 0}), "[1.]");
  EXPECT_EQ(format_values(Tensor({0.1, 1 / 3.}), {.precision = 20}),
            "[0.1                0.3333333333333333]");
}

TEST(FormatValues, RejectsOptionsThatMakeNoSense) {
  const Tensor tensor({1, 2});
  EXPECT_ERROR(Code::InvalidArgument, "precision -1", format_values(tensor, {.precision = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "threshold -1", format_values(tensor, {.threshold = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "edge_items 0", format_values(tensor, {.edge_items = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "line_width 0", format_values(tensor, {.line_width = 0}));
}

TEST(FormatValues, QuotesStrings) {
  EXPECT_EQ(format_values(Tensor("a")), "'a'");
  EXPECT_EQ(format_values(Tensor({"a", "b c", ""})), "['a' 'b c' '']");
  EXPECT_EQ(format_values(Tensor({{"a"}, {"b"}})), "[['a']\n ['b']]");
  EXPECT_EQ(format_values(Tensor(std::string("\n\t\r\\'\"\0\x7f\xc3\xa9 ~", 12))),
            R"('\n\t\r\\\'"\x00\x7f\xc3\xa9 ~')");
}

TEST(FormatValues, ShortensStrings) {
  std::vector<std::string> texts(1002, "x");
  texts[0] = "first";
  texts[1001] = "last";
  EXPECT_EQ(format_values(Tensor::from(std::move(texts), {2, 501}), {.edge_items = 1}),
            "[['first' ... 'x']\n ['x' ... 'last']]");
}

TEST(FormatValues, ReadsViewsInTheirOwnOrder) {
  const Tensor view = internal::from_aten(internal::aten(range({2, 3})).t());
  EXPECT_EQ(format_values(view), "[[0 3]\n [1 4]\n [2 5]]");
  const Tensor same = internal::from_aten(internal::aten(Tensor({1.f})).expand({3}));
  EXPECT_EQ(format_values(same), "[1. 1. 1.]");
}

TEST(FormatValues, NeedsValues) {
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", format_values(Tensor()));
  const Tensor handle = internal::make_resource(nullptr);
  EXPECT_ERROR(Code::InvalidArgument, "resource", format_values(handle));
}

TEST(TensorToString, HasValuesShapeAndDType) {
  EXPECT_EQ(Tensor(11.f).to_string(), "Tensor(11., shape=(), dtype=float32)");
  EXPECT_EQ(Tensor({5.f}).to_string(), "Tensor([5.], shape=(1,), dtype=float32)");
  EXPECT_EQ(Tensor({{1}, {2}}).to_string(), "Tensor([[1]\n [2]], shape=(2, 1), dtype=int32)");
  EXPECT_EQ(Tensor({{3.f, 3.f, 3.f, 3.f}}).to_string(),
            "Tensor([[3. 3. 3. 3.]], shape=(1, 4), dtype=float32)");
  EXPECT_EQ(range({0, 3}).to_string(), "Tensor([], shape=(0, 3), dtype=int32)");
  EXPECT_EQ(Tensor({"a"}).to_string(), "Tensor(['a'], shape=(1,), dtype=string)");
  std::ostringstream out;
  out << Tensor(true);
  EXPECT_EQ(out.str(), "Tensor(True, shape=(), dtype=bool)");
}

TEST(TensorToString, WorksWithoutValues) {
  EXPECT_EQ(Tensor().to_string(), "Tensor(undefined)");
  EXPECT_EQ(internal::make_resource(nullptr).to_string(),
            "Tensor(<resource>, shape=(), dtype=resource)");
  auto symbol = std::make_shared<internal::SymbolBody>();
  symbol->kind = internal::TensorBody::Kind::Symbol;
  symbol->dtype = kFloat32;
  symbol->shape = {-1, 2};
  symbol->name = "layer/MatMul:0";
  EXPECT_EQ(internal::TensorAccess::make(symbol).to_string(),
            "Tensor(\"layer/MatMul:0\", shape=(None, 2), dtype=float32)");
}

TEST(FormatLikePython, ShowsSingleNumbersAsPythonDoes) {
  const Case cases[] = {
      {Tensor(1.f), "1.0"},
      {Tensor(0.f), "0.0"},
      {Tensor(-0.f), "-0.0"},
      {Tensor(0.1f), "0.1"},
      {Tensor(0.1), "0.1"},
      {Tensor(1 / 3.), "0.3333333333333333"},
      {Tensor(123456.5), "123456.5"},
      {Tensor(1e15), "1000000000000000.0"},
      {Tensor(1e16), "1e+16"},
      {Tensor(1.5e300), "1.5e+300"},
      {Tensor(0.0001), "0.0001"},
      {Tensor(0.00001), "1e-05"},
      {Tensor(kNan), "nan"},
      {Tensor(-kInfF), "-inf"},
      {Tensor(float16(0.1f)), "0.1"},
      {Tensor(bfloat16(0.1f)), "0.1"},
      {Tensor(3), "3"},
      {Tensor(true), "True"},
      {Tensor("a"), "'a'"},
  };
  for (const Case& one : cases) EXPECT_EQ(internal::format_like_python(one.tensor), one.text);
}

TEST(FormatLikePython, ShowsArraysAsNumpyDoes) {
  EXPECT_EQ(internal::format_like_python(Tensor({1.f, 2.f})), "[1. 2.]");
}

}  // namespace
}  // namespace cohort
