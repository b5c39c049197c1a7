#include "topology/node_list.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Hosts = std::vector<std::string>;

TEST(NodeList, ExpandsRangesInOrder) {
  const std::pair<const char*, Hosts> kCases[] = {
      {"a[3-5],b7,c[1,4-5]", {"a3", "a4", "a5", "b7", "c1", "c4", "c5"}},
      {"b,a", {"b", "a"}},
      {"n1,n1", {"n1", "n1"}},
      {"localhost", {"localhost"}},
      {"n[08-10]", {"n08", "n09", "n10"}},
      {"n[098-101]", {"n098", "n099", "n100", "n101"}},
      {"n[8-11]", {"n8", "n9", "n10", "n11"}},
      {"n[00-01,7,007]", {"n00", "n01", "n7", "n007"}},
      {"n[08-100]",
       [] {
         Hosts all = {"n08", "n09"};
         for (int i = 10; i <= 100; ++i) all.push_back("n" + std::to_string(i));
         return all;
       }()},
      {"n[5-5]", {"n5"}},
      {"n[5,3,5]", {"n5", "n3", "n5"}},
      {"r[1-2]n[01-02]", {"r1n01", "r1n02", "r2n01", "r2n02"}},
      {"n[1-2]-ib0.site", {"n1-ib0.site", "n2-ib0.site"}},
      {"gpu-node_1.example.org", {"gpu-node_1.example.org"}},
  };
  for (const auto& [text, hosts] : kCases) EXPECT_EQ(parse_node_list(text), hosts) << text;
}

TEST(NodeList, WhatCannotBeReadSaysWhy) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "a name is empty"},
      {"a,", "a name is empty"},
      {",a", "a name is empty"},
      {"a,,b", "a name is empty"},
      {"a[1-3", "a ']' is missing"},
      {"a1-3]", "a ']' too many"},
      {"a[1-[2]]", "a '[' too many"},
      {"a[1]]", "a ']' too many"},
      {"a[]", "'' is not a number"},
      {"a[1,]", "'' is not a number"},
      {"a[,1]", "'' is not a number"},
      {"a[-3]", "'' is not a number"},
      {"a[1-]", "'' is not a number"},
      {"a[1-2-3]", "'2-3' is not a number"},
      {"a[x]", "'x' is not a number"},
      {"a[1-y]", "'y' is not a number"},
      {"a[0x1]", "'0x1' is not a number"},
      {"a[ 1]", "' 1' is not a number"},
      {"a[+1]", "'+1' is not a number"},
      {"a[5-3]", "the range 5-3 goes down"},
      {"a[9-010]", "different zeros"},
      {"a[1-999999999999999999]", "more than 100,000 hosts"},
      {"a[0-9999999999999999999999]", "is not a number"},
      {"a[0-60000],b[0-60000]", "more than 100,000 hosts"},
      {"a[0-999]b[0-999]", "more than 100,000 hosts"},
      {"[1-3]", "begins with a bracket"},
      {"a b", "'a b' is not part of a name"},
      {"a;rm", "is not part of a name"},
      {"a:1", "is not part of a name"},
  };
  for (const auto& [text, why] : kCases) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(Code::InvalidArgument, why, parse_node_list(text));
    EXPECT_ERROR(Code::InvalidArgument, "[Slurm] the host list", parse_node_list(text));
  }
}

TEST(NodeList, SaysDifferentThingsOfDifferentMistakes) {
  std::set<std::string> said;
  for (const char* text : {"", "a[1-3", "a1-3]", "a[1-[2]]", "a[]", "a[x]", "a[1-2-3]", "a[5-3]",
                           "a[9-010]", "a[0-60000],b[0-60000]", "[1-3]", "a b"}) {
    const std::string message = error_of([&] { (void)parse_node_list(text); }).message;
    const size_t reason = message.find("cannot be read: ");
    ASSERT_NE(reason, std::string::npos) << message;
    EXPECT_TRUE(said.insert(message.substr(reason)).second) << message;
  }
}

TEST(TaskCounts, RepeatsWhatStandsInParentheses) {
  EXPECT_EQ(parse_task_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(parse_task_counts("4"), (std::vector<int>{4}));
  EXPECT_EQ(parse_task_counts("1,2(x1),3"), (std::vector<int>{1, 2, 3}));
}

TEST(TaskCounts, WhatCannotBeReadIsQuoted) {
  for (const char* text : {"", ",", "2,", "x", "2(3)", "2(x)", "2(x3", "2x3)", "2(x-1)", "-2", "0",
                           "2(x0)", "2(x3)1", "1 ,2", "(x2)", "2(x999999999)", "99999999999"}) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(Code::InvalidArgument, "expected a form like 2(x3),1", parse_task_counts(text));
  }
}

RC_GTEST_PROP(NodeListProperty, ReadsBackAnyRange, ()) {
  const int low = *rc::gen::inRange(0, 2000);
  const int count = *rc::gen::inRange(1, 50);
  const int width = *rc::gen::inRange(1, 6);
  const auto padded = [&](int number) {
    std::string digits = std::to_string(number);
    return std::string(std::max<size_t>(digits.size(), width) - digits.size(), '0') + digits;
  };
  Hosts expected;
  for (int i = low; i < low + count; ++i) expected.push_back("n" + padded(i));
  RC_ASSERT(parse_node_list("n[" + padded(low) + "-" + padded(low + count - 1) + "]") == expected);
}

}  // namespace
}  // namespace cohort::internal
