#include "cohort/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "support/expect_error.h"

namespace cohort {
namespace {

constexpr DType kAll[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8,   kInt16,
                          kInt32,   kInt64,    kUInt8,   kBool,    kString, kResource};
constexpr int kNumeric = 10;  // how many of them, from the first, are numbers

TEST(DType, NamesReadBack) {
  for (const DType dtype : kAll) EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  EXPECT_EQ(to_string(kFloat32), "float32");
  EXPECT_EQ(to_string(kBFloat16), "bfloat16");
  EXPECT_EQ(to_string(kString), "string");
  std::ostringstream out;
  out << kUInt8;
  EXPECT_EQ(out.str(), "uint8");
}

TEST(DType, UnknownNameIsAnErrorThatListsTheNames) {
  EXPECT_ERROR(Code::InvalidArgument, "'float' is not a dtype; the dtypes are float16, bfloat16",
               parse_dtype("float"));
  EXPECT_ERROR(Code::InvalidArgument, "''", parse_dtype(""));
}

TEST(DType, BelongsToItsFamily) {
  const std::string floating = "111100000000";
  const std::string integer = "000011111000";
  const std::string numeric = "111111111100";
  for (size_t i = 0; i < std::size(kAll); ++i) {
    EXPECT_EQ(is_floating(kAll[i]), floating[i] == '1') << kAll[i];
    EXPECT_EQ(is_integer(kAll[i]), integer[i] == '1') << kAll[i];
    EXPECT_EQ(is_numeric(kAll[i]), numeric[i] == '1') << kAll[i];
  }
}

TEST(DType, HasTheSizeOfItsCppType) {
  EXPECT_EQ(size_of(dtype_of<float16>), sizeof(float16));
  EXPECT_EQ(size_of(dtype_of<bfloat16>), sizeof(bfloat16));
  EXPECT_EQ(size_of(dtype_of<float>), sizeof(float));
  EXPECT_EQ(size_of(dtype_of<double>), sizeof(double));
  EXPECT_EQ(size_of(dtype_of<int8_t>), 1);
  EXPECT_EQ(size_of(dtype_of<int16_t>), 2);
  EXPECT_EQ(size_of(dtype_of<int32_t>), 4);
  EXPECT_EQ(size_of(dtype_of<int64_t>), 8);
  EXPECT_EQ(size_of(dtype_of<long long>), 8);
  EXPECT_EQ(size_of(dtype_of<uint8_t>), 1);
  EXPECT_EQ(size_of(dtype_of<bool>), sizeof(bool));
  EXPECT_EQ(size_of(kString), 0);
  EXPECT_EQ(size_of(kResource), 0);
}

TEST(DType, OnlyElementTypesHaveOne) {
  EXPECT_TRUE(TensorElement<std::string>);
  EXPECT_FALSE(TensorElement<unsigned>);
  EXPECT_FALSE(TensorElement<char>);
  EXPECT_FALSE(TensorElement<const char*>);
  EXPECT_FALSE(TensorElement<long double>);
}

TEST(Promote, GivesTheNarrowestDTypeThatHoldsBoth) {
  // In the order of kAll: h and b are the 16-bit floats, f and d float32 and float64; 1, 2, 4 and 8
  // the integers by bytes, u uint8, t bool.
  const std::string columns = "hbfd1248ut";
  const std::string table[kNumeric] = {
      "hffdhhhhhh",  //
      "fbfdbbbbbb",  //
      "fffdffffff",  //
      "dddddddddd",  //
      "hbfd124821",  //
      "hbfd224822",  //
      "hbfd444844",  //
      "hbfd888888",  //
      "hbfd2248uu",  //
      "hbfd1248ut",  //
  };
  for (int a = 0; a < kNumeric; ++a) {
    for (int b = 0; b < kNumeric; ++b) {
      const DType expected = kAll[columns.find(table[a][b])];
      EXPECT_EQ(promote(kAll[a], kAll[b]), expected) << kAll[a] << " with " << kAll[b];
    }
  }
}

TEST(Promote, TextAndResourcesMeetOnlyThemselves) {
  for (const DType special : {kString, kResource}) {
    EXPECT_EQ(promote(special, special), special);
    for (const DType other : kAll) {
      if (other == special) continue;
      const std::string names = to_string(special) + " and " + to_string(other);
      EXPECT_ERROR(Code::InvalidArgument, names, promote(special, other));
      EXPECT_ERROR(Code::InvalidArgument, "no common dtype", promote(other, special));
    }
  }
}

// Every pattern of bits, except that of NaN there are many.
template <typename T>
void expect_all_bits_survive_conversion() {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    T value;
    value.bits = static_cast<uint16_t>(bits);
    if (std::isnan(float{value})) {
      ASSERT_TRUE(std::isnan(float{T(float{value})}));
    } else {
      ASSERT_EQ(T(float{value}).bits, bits);
    }
  }
}

TEST(Float16, SurvivesTheWayThroughFloat) { expect_all_bits_survive_conversion<float16>(); }
TEST(BFloat16, SurvivesTheWayThroughFloat) { expect_all_bits_survive_conversion<bfloat16>(); }

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(float{float16(0.1f)}, 0.0999755859375f);
  EXPECT_EQ(float{float16(2049.0f)}, 2048.0f);  // half-way, even below
  EXPECT_EQ(float{float16(2051.0f)}, 2052.0f);  // half-way, even above
  EXPECT_EQ(float{float16(65504.0f)}, 65504.0f);
  EXPECT_EQ(float{float16(65520.0f)}, std::numeric_limits<float>::infinity());
  EXPECT_EQ(float{float16(5.9604645e-8f)}, 5.9604645e-8f);  // the smallest
  EXPECT_EQ(float{float16(1e-10f)}, 0.0f);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(float{bfloat16(257.0f)}, 256.0f);  // half-way, even below
  EXPECT_EQ(float{bfloat16(259.0f)}, 260.0f);  // half-way, even above
  EXPECT_EQ(float{bfloat16(3.4028235e38f)}, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float{bfloat16(std::nanf(""))}));
}

}  // namespace
}  // namespace cohort
