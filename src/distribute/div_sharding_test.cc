#include "distribute/div_sharding.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Sizes = std::vector<int64_t>;

TEST(DivSharding, GivesTheFirstPartsTheRest) {
  EXPECT_EQ(DivSharding(17, 4).sizes(), (Sizes{5, 4, 4, 4}));
  EXPECT_EQ(DivSharding(11, 3).sizes(), (Sizes{4, 4, 3}));
  EXPECT_EQ(DivSharding(2, 5).sizes(), (Sizes{1, 1}));
  EXPECT_EQ(DivSharding(0, 5).sizes(), (Sizes{0}));
}

TEST(DivSharding, FindsEveryRow) {
  for (int64_t rows = 1; rows < 30; ++rows) {
    for (int64_t parts = 1; parts < 12; ++parts) {
      const DivSharding layout(rows, parts);
      int64_t next = 0;
      for (int64_t part = 0; part < layout.parts(); ++part) {
        EXPECT_EQ(layout.begin(part), next);
        for (int64_t row = 0; row < layout.size(part); ++row, ++next) {
          EXPECT_EQ(layout.place(next), (DivSharding::Place{part, row})) << rows << '/' << parts;
        }
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(DivSharding, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(Code::InvalidArgument, "0 parts", DivSharding(3, 0));
  EXPECT_ERROR(Code::InvalidArgument, "-1 rows", DivSharding(-1, 1));
  EXPECT_ERROR(Code::InvalidArgument, "no row 3", DivSharding(3, 2).place(3));
  EXPECT_ERROR(Code::InvalidArgument, "no row 0", DivSharding(0, 2).place(0));
}

}  // namespace
}  // namespace cohort::internal
