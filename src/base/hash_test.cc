#include "base/hash.h"

#include <gtest/gtest.h>

namespace cohort::internal {
namespace {

// The first numbers of SplitMix64 with the seed 0, as its authors publish them.
TEST(Hash, Mix64GivesTheNumbersOfSplitMix64) {
  EXPECT_EQ(mix64(1 * kSplitMixStep), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix64(2 * kSplitMixStep), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(mix64(3 * kSplitMixStep), 0x06c45d188009454fu);
}

TEST(Hash, OfTextIsFnv1a) {
  EXPECT_EQ(hash_text(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_text("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace cohort::internal
