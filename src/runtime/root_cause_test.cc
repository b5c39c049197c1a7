#include <gtest/gtest.h>

#include "runtime/graph_run.h"

namespace cohort::internal {
namespace {

Status failure(Code code, const std::string& message, bool derived = false) {
  return {.code = code, .message = message, .derived = derived};
}

TEST(RootCause, IsOkWhenAllAre) { EXPECT_TRUE(root_cause({{}, {}}).ok()); }

TEST(RootCause, WinsWhereverItComesAmongItsConsequences) {
  const Status root = failure(Code::InvalidArgument, "the cause");
  const Status follows = failure(Code::Cancelled, "because of that", true);
  for (const auto& outcomes :
       {std::vector<Status>{root, follows, {}}, std::vector<Status>{follows, {}, follows, root},
        std::vector<Status>{{}, follows, root, follows}}) {
    const Status told = root_cause(outcomes);
    EXPECT_EQ(told.code, Code::InvalidArgument);
    EXPECT_EQ(told.message, "the cause");
  }
}

TEST(RootCause, IsAConsequenceWhenNothingElseIsKnown) {
  EXPECT_EQ(root_cause({{}, failure(Code::Cancelled, "because", true)}).code, Code::Cancelled);
}

TEST(RootCause, OfSeveralHasTheCodeOfTheFirstAndAllTexts) {
  const Status told = root_cause({failure(Code::OutOfRange, "one"), failure(Code::Internal, "two"),
                                  failure(Code::Cancelled, "because", true)});
  EXPECT_EQ(told.code, Code::OutOfRange);
  EXPECT_EQ(told.message, "one; and: two");
}

TEST(RootCause, DoesNotGrowWithoutEnd) {
  std::vector<Status> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(failure(Code::Internal, std::to_string(i) + std::string(100, 'x')));
  }
  EXPECT_LE(root_cause(many).message.size(), 4096u);
  EXPECT_TRUE(root_cause(many).message.starts_with("0x"));
}

}  // namespace
}  // namespace cohort::internal
