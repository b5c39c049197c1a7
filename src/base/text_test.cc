#include "base/text.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Texts = std::vector<std::string>;

TEST(JoinedTexts, ComeApartAsTheyWereJoined) {
  for (const Texts& texts : {Texts{}, Texts{""}, Texts{"", "3 abc", std::string("\0 \n", 3), ""}}) {
    EXPECT_EQ(split_texts(join_texts(texts)), texts);
  }
  for (const char* damaged : {"x", "3", "3abc", "4 abc", "-1 a", "99999999999999999999 a"}) {
    EXPECT_ERROR(Code::DataLoss, "damaged", split_texts(damaged));
  }
}

}  // namespace
}  // namespace cohort::internal
