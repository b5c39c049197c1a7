#include <gtest/gtest.h>

#include "ops/op.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

TEST(SpecList, IsReadAsItWasWritten) {
  const Specs specs{{kFloat32, {2, -1}}, {kString, {}}, {kInt64, Shape::unknown()}};
  const Specs read = unpack_specs("Op", pack_specs(specs));
  ASSERT_EQ(read.size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(read[i].dtype, specs[i].dtype);
    EXPECT_EQ(read[i].shape.to_string(), specs[i].shape.to_string());
  }
  EXPECT_EQ(to_string(read), "(float32 (2, None), string (), int64 <unknown>)");
  EXPECT_TRUE(unpack_specs("Op", {}).empty());
}

TEST(SpecList, RefusesWhatItDoesNotWrite) {
  const std::vector<std::vector<int64_t>> malformed{
      {2}, {-1, 0}, {99, 0}, {2, 9}, {2, -2}, {2, 2, 5}, {2, 1, -2}, {2, 1, INT64_MAX}, {11, 0}};
  for (const std::vector<int64_t>& list : malformed) {
    EXPECT_ERROR(Code::InvalidArgument, "[Op] the list of dtypes", unpack_specs("Op", list));
  }
}

}  // namespace
}  // namespace cohort::internal
