#include "cohort/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "kernels/random_values.h"
#include "ops/op.h"
#include "support/expect_error.h"
#include "support/find_op.h"

namespace cohort::internal {
namespace {

using random::Generator;

constexpr int64_t kMany = 200'000;

struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments moments_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Moments result;
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  for (const double value : values) {
    result.variance += (value - result.mean) * (value - result.mean) / count;
  }
  return result;
}

// How far the counts of `bins` equally likely bins are from even, in standard deviations of the
// chi-square distribution.
double chi_square_deviation(const std::vector<int64_t>& bin_of_each, int64_t bins) {
  std::vector<double> counts(static_cast<size_t>(bins));
  for (const int64_t bin : bin_of_each) ++counts[static_cast<size_t>(bin)];
  const double expected = static_cast<double>(bin_of_each.size()) / static_cast<double>(bins);
  double chi_square = 0;
  for (const double count : counts)
    chi_square += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(bins - 1);
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox(0, PhiloxBlock{0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~uint64_t{0}, PhiloxBlock{~0u, ~0u, ~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, PhiloxBlock{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, GivesTheSameWordsManyAtOnce) {
  for (const int64_t blocks : {0, 1, 7, 8, 9, 21}) {
    const uint64_t first = (uint64_t{1} << 32) - 3;  // carries into the second word
    std::vector<uint32_t> words(static_cast<size_t>(4 * blocks) + 1, 77);
    philox_words(99, first, blocks, words.data());
    for (int64_t i = 0; i < 4 * blocks; ++i) {
      const auto number = first + static_cast<uint64_t>(i / 4);
      const PhiloxBlock block = philox(99, number, PhiloxSequence::Draw);
      EXPECT_EQ(words[static_cast<size_t>(i)], block[static_cast<size_t>(i % 4)]) << i;
    }
    EXPECT_EQ(words.back(), 77u) << "wrote beyond the end";
  }
}

double normal_quantile(double p) {
  normal_quantiles(&p, 1);
  return p;
}

TEST(NormalQuantile, IsTheSameOneByOneAndTogether) {
  std::vector<double> together;
  for (int i = 1; i < 1000; ++i) together.push_back(i / 1000.0);
  std::vector<double> single = together;
  for (double& p : single) p = normal_quantile(p);
  normal_quantiles(together.data(), static_cast<int64_t>(together.size()));
  EXPECT_EQ(together, single);
}

TEST(NormalQuantile, InvertsTheDistribution) {
  for (const double p : {1e-300, 1e-15, 1e-9, 1e-3, 0.02, 0.0749, 0.0751, 0.3, 0.5, 0.7, 0.93}) {
    const double back = 0.5 * std::erfc(-normal_quantile(p) / std::sqrt(2.0));
    EXPECT_NEAR(back / p, 1, 2e-12) << p;
  }
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_DOUBLE_EQ(normal_quantile(0.975), 1.959963984540054);
}

TEST(Generator, RepeatsItselfFromTheSameSeed) {
  Generator a(7);
  Generator b(7);
  Generator other(8);
  for (int i = 0; i < 3; ++i) {
    const auto drawn = a.uniform({5}).to_vector<float>();
    EXPECT_EQ(drawn, b.uniform({5}).to_vector<float>());
    EXPECT_NE(drawn, other.uniform({5}).to_vector<float>());
  }
}

TEST(Generator, AdvancesByTheBlocksUsed) {
  Generator generator(1);
  const auto used = [&](auto draw) {
    const auto before = generator.state().at<int64_t>({1});
    draw();
    return generator.state().at<int64_t>({1}) - before;
  };
  EXPECT_EQ(used([&] { generator.uniform({9}); }), 3);
  EXPECT_EQ(used([&] { generator.uniform({9}, {.dtype = kFloat16}); }), 3);
  EXPECT_EQ(used([&] { generator.normal({9}, {.dtype = kFloat64}); }), 5);
  EXPECT_EQ(used([&] { generator.randint({4}, 0, 10, kInt8); }), 2);
  EXPECT_EQ(used([&] { generator.uniform({0}); }), 0);
  EXPECT_EQ(used([&] { generator.split(); }), 1);
  EXPECT_EQ(used([&] { capture_status([&] { generator.randint({4}, 1, 1); }).ok(); }), 0);
}

TEST(Generator, DrawsThatFollowEachOtherAreTheDrawThatHoldsBoth) {
  Generator whole(3);
  Generator parts(3);
  const auto all = whole.uniform({12}).to_vector<float>();
  std::vector<float> joined = parts.uniform({4}).to_vector<float>();
  const auto rest = parts.uniform({8}).to_vector<float>();
  joined.insert(joined.end(), rest.begin(), rest.end());
  EXPECT_EQ(all, joined);
}

TEST(Generator, ElementsDoNotDependOnHowManyAreDrawn) {
  for (const int64_t count : {1, 2, 3, 5, 1000}) {
    Generator few(11);
    Generator many(11);
    const auto some = few.normal({count}).to_vector<float>();
    const auto all = many.normal({100'003}).to_vector<float>();
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  }
}

TEST(Generator, ContinuesFromARestoredState) {
  Generator generator(5);
  generator.uniform({3});
  const Tensor state = generator.state();
  const auto next = generator.normal({4}).to_vector<float>();
  Generator restored(0);
  restored.restore(state);
  EXPECT_EQ(restored.normal({4}).to_vector<float>(), next);
  expect_error([&] { restored.restore(Tensor({1, 2})); }, "got int32 of shape (2,)");
  expect_error([&] { restored.restore(Tensor({int64_t{1}})); }, "got int64 of shape (1,)");
  expect_error([&] { restored.restore(Tensor()); }, "got nothing");
}

TEST(Generator, StreamsOfASplitAreDistinct) {
  Generator parent(0);
  std::set<std::vector<float>> streams;
  for (int i = 0; i < 50; ++i) {
    Generator child = parent.split();
    streams.insert(child.uniform({4}).to_vector<float>());
    streams.insert(child.split().uniform({4}).to_vector<float>());
  }
  streams.insert(parent.uniform({4}).to_vector<float>());
  EXPECT_EQ(streams.size(), 101u);
}

TEST(Uniform, IsEvenOverItsRange) {
  Generator generator(1);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const auto values =
        generator.uniform({kMany}, {.low = -2, .high = 6, .dtype = dtype}).to_vector<double>();
    const Moments moments = moments_of(values);
    EXPECT_NEAR(moments.mean, 2, 0.03) << dtype;
    EXPECT_NEAR(moments.variance, 64.0 / 12, 0.05) << dtype;
    EXPECT_GE(*std::min_element(values.begin(), values.end()), -2) << dtype;
    EXPECT_LT(*std::max_element(values.begin(), values.end()), 6) << dtype;
  }
}

TEST(Uniform, PassesAChiSquareTest) {
  Generator generator(2);
  for (const DType dtype : {kFloat32, kFloat64}) {
    std::vector<int64_t> bins;
    for (const double value : generator.uniform({kMany}, {.dtype = dtype}).to_vector<double>()) {
      bins.push_back(static_cast<int64_t>(value * 100));
    }
    EXPECT_LT(std::abs(chi_square_deviation(bins, 100)), 4) << dtype;
  }
}

TEST(Uniform, NeverDrawsTheUpperBound) {
  Generator generator(3);
  const auto values = generator.uniform({kMany}, {.low = 1, .high = 1.0078125, .dtype = kBFloat16})
                          .to_vector<double>();
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 1);
  const auto negative =
      generator.uniform({kMany}, {.low = -1, .high = 0, .dtype = kFloat16}).to_vector<double>();
  EXPECT_LT(*std::max_element(negative.begin(), negative.end()), 0);
}

TEST(Normal, HasItsMeanVarianceAndTails) {
  Generator generator(4);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const auto values =
        generator.normal({kMany}, {.mean = 1, .stddev = 3, .dtype = dtype}).to_vector<double>();
    const Moments moments = moments_of(values);
    EXPECT_NEAR(moments.mean, 1, 0.03) << dtype;
    EXPECT_NEAR(moments.variance, 9, 0.15) << dtype;
    const auto beyond =
        std::count_if(values.begin(), values.end(), [](double x) { return std::abs(x - 1) > 6; });
    EXPECT_NEAR(static_cast<double>(beyond) / kMany, 0.0455, 0.002) << dtype;
  }
}

TEST(Normal, PassesAChiSquareTest) {
  Generator generator(5);
  std::vector<int64_t> bins;
  for (const double x : generator.normal({kMany}).to_vector<double>()) {
    const double p = 0.5 * std::erfc(-x / std::sqrt(2.0));
    bins.push_back(std::min<int64_t>(99, static_cast<int64_t>(p * 100)));
  }
  EXPECT_LT(std::abs(chi_square_deviation(bins, 100)), 4);
}

TEST(Normal, OfNoDeviationIsTheMean) {
  Generator generator(6);
  EXPECT_EQ(generator.normal({3}, {.mean = 2, .stddev = 0}).to_vector<float>(),
            (std::vector<float>{2, 2, 2}));
}

TEST(TruncatedNormal, StaysWithinTwoDeviations) {
  Generator generator(7);
  for (const DType dtype : {kFloat32, kFloat64}) {
    const auto values =
        generator.truncated_normal({kMany}, {.mean = 1, .stddev = 2, .dtype = dtype})
            .to_vector<double>();
    EXPECT_GE(*std::min_element(values.begin(), values.end()), -3);
    EXPECT_LE(*std::max_element(values.begin(), values.end()), 5);
    const Moments moments = moments_of(values);
    EXPECT_NEAR(moments.mean, 1, 0.02);
    EXPECT_NEAR(moments.variance, 4 * 0.7737, 0.03);
  }
}

TEST(Randint, IsEvenAlsoWhereThePowerOfTwoIsNot) {
  Generator generator(8);
  for (const int64_t bound : {2, 3, 7, 100}) {
    const auto values = generator.randint({kMany}, 0, bound).to_vector<int64_t>();
    EXPECT_LT(std::abs(chi_square_deviation(values, bound)), 4) << bound;
  }
}

TEST(Randint, IsEvenOverMostOfThe64BitRange) {
  // Three quarters of 2^64: a third of the first tries is rejected.
  Generator generator(9);
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = low / 2 * -1;  // 2^62
  std::vector<int64_t> thirds;
  for (const int64_t value : generator.randint({kMany}, low, high).to_vector<int64_t>()) {
    EXPECT_LT(value, high);
    thirds.push_back(value < low / 2 ? 0 : value < 0 ? 1 : 2);
  }
  EXPECT_LT(std::abs(chi_square_deviation(thirds, 3)), 4);
}

TEST(Randint, CoversTheWholeOfEachDtype) {
  Generator generator(10);
  const auto bytes = generator.randint({kMany}, -128, 128, kInt8).to_vector<int>();
  EXPECT_EQ(std::set<int>(bytes.begin(), bytes.end()).size(), 256u);
  EXPECT_EQ(generator.randint({3}, 255, 256, kUInt8).to_vector<int>(),
            (std::vector<int>{255, 255, 255}));
}

TEST(Shuffle, PermutesTheFirstDimension) {
  Generator generator(12);
  std::vector<int> rows(100);
  std::iota(rows.begin(), rows.end(), 0);
  const auto shuffled = generator.shuffle(Tensor::from(rows)).to_vector<int>();
  EXPECT_NE(shuffled, rows);
  EXPECT_TRUE(std::is_permutation(shuffled.begin(), shuffled.end(), rows.begin()));
  const Tensor pairs = generator.shuffle(Tensor({{1, 2}, {3, 4}, {5, 6}}));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(pairs.at<int>({i, 0}) + 1, pairs.at<int>({i, 1}));
  EXPECT_EQ(generator.shuffle(Tensor({"a", "b"})).size(), 2);
  EXPECT_EQ(generator.shuffle(Tensor::from(std::vector<float>{})).size(), 0);
}

TEST(Shuffle, GivesEveryOrderEquallyOften) {
  Generator generator(13);
  const Tensor three({0, 1, 2});
  const std::vector<std::vector<int>> orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  std::vector<int64_t> drawn;
  for (int i = 0; i < 6000; ++i) {
    const auto order = generator.shuffle(three).to_vector<int>();
    drawn.push_back(std::find(orders.begin(), orders.end(), order) - orders.begin());
  }
  EXPECT_LT(std::abs(chi_square_deviation(drawn, 6)), 4);
}

TEST(Random, RejectsBadArguments) {
  Generator generator(0);
  expect_error([&] { generator.uniform({2}, {.low = 1, .high = 1}); }, "low < high");
  expect_error([&] { generator.uniform({2}, {.low = 1, .high = 1.0001, .dtype = kFloat16}); },
               "low < high, both finite in float16");
  expect_error([&] { generator.uniform({2}, {.low = std::nan("")}); }, "got low nan");
  expect_error([&] { generator.uniform({2}, {.high = 1e39}); }, "both finite in float32");
  expect_error([&] { generator.uniform({-1, 2}); }, "every size must be 0 or more");
  expect_error([&] { generator.uniform({-2}); }, "size -2");
  expect_error([&] { generator.uniform({int64_t{1} << 60}); }, "too large");
  expect_error([&] { generator.uniform({2}, {.dtype = kInt32}); }, "RandomInt draws integers");
  expect_error([&] { generator.uniform({2}, {.dtype = kString}); }, "not string");
  expect_error([&] { generator.normal({2}, {.stddev = -1}); }, "got mean 0 and stddev -1");
  expect_error([&] { generator.truncated_normal({2}, {.mean = INFINITY}); }, "finite mean");
  expect_error([&] { generator.randint({2}, 3, 3); }, "got low 3 and high 3");
  expect_error([&] { generator.randint({2}, -1, 3, kUInt8); }, "uint8 does not hold");
  expect_error([&] { generator.randint({2}, 0, 129, kInt8); }, "from 0 to 128");
  expect_error([&] { generator.randint({2}, 0, 2, kFloat32); }, "RandomUniform draws floats");
  expect_error([&] { generator.shuffle(Tensor(1)); }, "at least 1 dimension");
  const Attrs attrs = {{"shape", Shape{2}}, {"dtype", kFloat32}, {"low", 0.0}, {"high", 1.0}};
  expect_error([&] { apply(find_op("RandomUniform"), {Tensor({int64_t{1}})}, attrs); },
               "the key must be int64 of shape (2,)");
}

TEST(Random, SeedsTheGeneratorOfThisThreadOnly) {
  random::set_seed(42);
  const auto first = random::uniform({4}).to_vector<float>();
  random::set_seed(42);
  std::vector<float> elsewhere;
  std::vector<float> unseeded;
  std::thread([&] {
    unseeded = random::uniform({4}).to_vector<float>();
    random::set_seed(42);
    elsewhere = random::uniform({4}).to_vector<float>();
  }).join();
  EXPECT_EQ(random::uniform({4}).to_vector<float>(), first);
  EXPECT_EQ(elsewhere, first);
  EXPECT_NE(unseeded, first);
  EXPECT_EQ(Generator(42).uniform({4}).to_vector<float>(), first);
}

}  // namespace
}  // namespace cohort::internal
