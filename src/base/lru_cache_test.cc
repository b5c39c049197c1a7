#include "base/lru_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace cohort::internal {
namespace {

using Numbers = LruCache<std::string, int>;

std::string keys(const Numbers& numbers) {
  std::string all;
  for (const auto& entry : numbers) all += entry.key;
  return all;
}

TEST(LruCache, OrdersEntriesByTheirLastUse) {
  Numbers numbers;
  EXPECT_EQ(numbers.find("a"), nullptr);
  EXPECT_EQ(numbers.put("a", 1), std::nullopt);
  numbers.put("b", 2);
  numbers.put("c", 3);
  EXPECT_EQ(keys(numbers), "cba");
  EXPECT_EQ(*numbers.find("a"), 1);
  EXPECT_EQ(keys(numbers), "acb");
  EXPECT_EQ(numbers.oldest().value, 2);
}

TEST(LruCache, ReturnsTheValueThatIsReplaced) {
  Numbers numbers;
  numbers.put("a", 1);
  numbers.put("b", 2);
  EXPECT_EQ(numbers.put("a", 3), 1);
  EXPECT_EQ(keys(numbers), "ab");
  EXPECT_EQ(*numbers.find("a"), 3);
}

TEST(LruCache, DropsTheOldestFirst) {
  Numbers numbers;
  numbers.put("a", 1);
  numbers.put("b", 2);
  EXPECT_EQ(numbers.drop_oldest(), 1);
  EXPECT_EQ(numbers.find("a"), nullptr);
  EXPECT_EQ(numbers.drop_oldest(), 2);
  EXPECT_EQ(numbers.drop_oldest(), std::nullopt);
}

TEST(LruCache, DropsWhatMeetsACondition) {
  Numbers numbers;
  for (const int number : {1, 2, 3, 4}) numbers.put(std::to_string(number), number);
  const auto is_even = [](int number) { return number % 2 == 0; };
  EXPECT_EQ(numbers.drop_if(is_even), (std::vector<int>{4, 2}));
  EXPECT_EQ(keys(numbers), "31");
  EXPECT_EQ(numbers.size(), 2u);
}

}  // namespace
}  // namespace cohort::internal
