#include <gtest/gtest.h>

#include <vector>

#include "distribute/variables/sharded_variable.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Sizes = std::vector<int64_t>;

Sizes sizes_of(const DivSharding& layout) {
  Sizes sizes;
  for (int64_t part = 0; part < layout.parts(); ++part) sizes.push_back(layout.size(part));
  return sizes;
}

TEST(DivSharding, GivesTheFirstPartsTheRest) {
  EXPECT_EQ(sizes_of({17, 4}), (Sizes{5, 4, 4, 4}));
  EXPECT_EQ(sizes_of({11, 3}), (Sizes{4, 4, 3}));
  EXPECT_EQ(sizes_of({2, 5}), (Sizes{1, 1}));
  EXPECT_EQ(sizes_of({0, 5}), (Sizes{0}));
}

TEST(DivSharding, GivesEveryRowToOnePart) {
  for (int64_t rows = 1; rows < 30; ++rows) {
    for (int64_t parts = 1; parts < 12; ++parts) {
      const DivSharding layout(rows, parts);
      int64_t next = 0;
      for (int64_t part = 0; part < layout.parts(); ++part) {
        EXPECT_EQ(layout.begin(part), next);
        next += layout.size(part);
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(DivSharding, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(Code::InvalidArgument, "0 parts", DivSharding(3, 0));
  EXPECT_ERROR(Code::InvalidArgument, "-1 rows", DivSharding(-1, 1));
}

}  // namespace
}  // namespace cohort::internal
