// Programs that open both namespaces, as many do.

#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>

#include "cohort/cohort.h"

using namespace cohort;  // NOLINT: what is tested
using namespace std;     // NOLINT

TEST(Names, RangeIsATensorAndThatOfDataADataset) {
  EXPECT_EQ(range(3).to_vector<int64_t>(), (vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(range(0, 1, 0.5).to_vector<float>(), (vector<float>{0, 0.5}));
  EXPECT_EQ(data::range(3).cardinality(), 3);
  EXPECT_EQ(data::range(1, 3).cardinality(), 2);
}
