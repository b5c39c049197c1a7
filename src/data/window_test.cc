#include "data/window.h"

#include "base/memory_limit.h"
#include "support/data_limit.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

// The elements of each window of scalars.
Rows windows(const Dataset& dataset) {
  Rows all;
  for (const Dataset window : dataset) all.push_back(numbers(window));
  return all;
}

TEST(Window, OverlapsAndStrides) {
  EXPECT_EQ(windows(range(5).window(3, {.shift = 1, .drop_remainder = true})),
            (Rows{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}}));
  EXPECT_EQ(windows(range(5).window(2, {.shift = 3})), (Rows{{0, 1}, {3, 4}}));
  EXPECT_EQ(windows(range(6).window(2, {.shift = 1, .stride = 2, .drop_remainder = true})),
            (Rows{{0, 2}, {1, 3}, {2, 4}, {3, 5}}));
  EXPECT_EQ(windows(range(3).window(2, {.shift = 1})), (Rows{{0, 1}, {1, 2}, {2}}));
  EXPECT_ERROR(Code::InvalidArgument, "size", range(3).window(0));
}

TEST(Window, ElementsAreDatasetsToBatchAndMap) {
  const auto sums = range(4).window(2, {.shift = 1}).flat_map([](Dataset window) {
    return window.map([](int64_t x) { return x * 10; }).batch(2);
  });
  EXPECT_EQ(rows(sums), (Rows{{0, 10}, {10, 20}, {20, 30}, {30}}));
  const Element first = *range(4).window(3).begin();
  EXPECT_TRUE(first.is_dataset());
  EXPECT_EQ(first.size(), 3u);
  EXPECT_EQ(first.dataset().cardinality(), 3);
  EXPECT_EQ(first.dataset().element_spec()->to_string(), "int64 ()");
  EXPECT_ERROR(Code::InvalidArgument, "a dataset was asked for", Element(Tensor(1)).dataset());
}

TEST(Window, TurnsEachTensorIntoADataset) {
  const auto pairs = zip({range(4), range(10, 14)}).window(2).flat_map([](Dataset a, Dataset b) {
    return zip({a.batch(2), b.batch(2)});
  });
  const auto [a, b] = *pairs.begin();
  EXPECT_EQ(a.to_vector<int64_t>(), (Numbers{0, 1}));
  EXPECT_EQ(b.to_vector<int64_t>(), (Numbers{10, 11}));
}

TEST(Window, ThatFitsIntoNoMemoryIsAnError) {
  const WindowOptions sparse{.stride = int64_t{1} << 31};
  EXPECT_ERROR(Code::InvalidArgument, "stride 2147483648 keeps 2147483649 elements in memory",
               range(int64_t{1} << 60).window(2, sparse));
  EXPECT_ERROR(Code::InvalidArgument, "elements in memory", range(3).repeat().window(2, sparse));
  // As long as the input.
  EXPECT_EQ(windows(range(3).window(INT64_MAX)), (Rows{{0, 1, 2}}));
  EXPECT_EQ(range(3).window(2, {.shift = INT64_MAX}).cardinality(), 1);
}

// Whether it fits shows only while the elements come.
TEST(Window, OfUnknownLengthThatFitsIntoNoMemoryIsAnError) {
  const Dataset numbers = range(1000).filter([](int64_t) { return true; });
  ASSERT_EQ(numbers.cardinality(), kUnknownCardinality);
  const auto sparse = [&](const Dataset& input, int64_t stride) {
    return windows(internal::window_within(100, input, 2, {.shift = 1, .stride = stride}));
  };
  EXPECT_ERROR(Code::ResourceExhausted,
               "size 2 with stride 100 keeps 101 elements in memory; at most 100 are possible; use "
               "a smaller stride",
               sparse(numbers, 100));
  EXPECT_EQ(sparse(numbers, 99).at(900), (Numbers{900, 999}));
  EXPECT_EQ(sparse(numbers.take(100), int64_t{1} << 31).size(), 100u);
  EXPECT_ERROR(Code::InvalidArgument, "at most 100 are possible", sparse(range(1000), 100));
}

TEST(Window, ThatFitsIntoLessMemoryThanItsProcessMayHaveIsAnError) {
  constexpr int64_t kMillion = 1'000'000;
  const DataLimit limited(64 << 20);
  const auto most = static_cast<int64_t>(cohort::internal::memory_limit() / 300);
  EXPECT_ERROR(Code::InvalidArgument, "elements in memory",
               range(most + 2 * kMillion).window(2, {.stride = most + kMillion}));
}

TEST(Window, WhoseElementsExhaustTheMemoryIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends a program without memory";
#endif
  const WindowOptions sparse{.stride = int64_t{1} << 31};
  Iterator all = internal::window_within(INT64_MAX, range(int64_t{1} << 60), 2, sparse).iterator();
  const DataLimit limited(64 << 20);
  for (int i = 0; i < 2; ++i) {
    EXPECT_ERROR(Code::ResourceExhausted, "keeps 2147483649 elements in memory; at most",
                 all.next());
  }
  EXPECT_ERROR(Code::ResourceExhausted, "[Window] size 2", all.save());
}

TEST(Window, HoldsElementsOfAnyShape) {
  const auto words = range(1, 4).map([](int64_t n) { return std::vector<int64_t>(n, n); });
  const auto padded =
      words.window(3).flat_map([](Dataset window) { return window.padded_batch(3); });
  EXPECT_EQ(rows(padded), (Rows{{1, 0, 0, 2, 2, 0, 3, 3, 3}}));
  EXPECT_ERROR(Code::InvalidArgument, "cannot be stacked", rows(range(4).window(2).batch(2)));
  EXPECT_ERROR(Code::InvalidArgument, "windows of windows",
               range(4).window(2).window(2).iterator().next());
}

}  // namespace
}  // namespace cohort::data
