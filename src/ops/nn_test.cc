#include <gtest/gtest.h>

#include "cohort/nn_layers.h"
#include "cohort/random.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

TEST(Activations, AreValuesThatCanBePassed) {
  const auto apply_to = [](const auto& function) { return function(Tensor({-1.f, 2.f})); };
  EXPECT_EQ(apply_to(nn::relu).to_vector<float>(), (std::vector<float>{0, 2}));
  EXPECT_EQ(apply_to(nn::leaky_relu).to_vector<float>(), (std::vector<float>{-0.01f, 2}));
  const std::function<Tensor(const Tensor&)> stored = nn::relu6;
  EXPECT_EQ(stored(Tensor({9.f})).to<float>(), 6);
}

TEST(Activations, SoftmaxOfARowSumsToOne) {
  const Tensor y = nn::softmax(Tensor({{1.0, 2.0, 700.0}, {-700.0, 0.0, 1.0}}));
  EXPECT_NEAR(sum(y[0]).to<double>(), 1, 1e-12);
  EXPECT_NEAR(sum(y[1]).to<double>(), 1, 1e-12);
}

TEST(Conv2d, SamePaddingKeepsTheSizeDividedByTheStride) {
  for (const int64_t size : {5, 6, 7}) {
    for (const int64_t stride : {1, 2, 3}) {
      const Tensor y = nn::conv2d(ones({1, 1, size, size}), ones({1, 1, 3, 2}),
                                  {.stride = stride, .padding = nn::PaddingMode::Same});
      const int64_t expected = (size + stride - 1) / stride;
      EXPECT_EQ(y.shape(), Shape({1, 1, expected, expected}));
    }
  }
}

TEST(Conv2d, GroupsDoNotMixChannels) {
  const Tensor x = concat({zeros({1, 1, 2, 2}), ones({1, 1, 2, 2})}, 1);
  const Tensor y = nn::conv2d(x, ones({2, 1, 1, 1}), {.groups = 2});
  EXPECT_EQ(sum(y, {0, 2, 3}).to_vector<float>(), (std::vector<float>{0, 4}));
}

TEST(Conv2d, RefusesWindowsTooLargeToComputeWith) {
  EXPECT_ERROR(Code::InvalidArgument, "at most 2147483647",
               nn::conv2d(ones({1, 1, 4, 4}), ones({1, 1, 2, 2}), {.dilation = int64_t{1} << 60}));
}

TEST(MaxPool2d, NeverChoosesPadding) {
  const Tensor y =
      nn::max_pool2d(fill({1, 1, 3, 3}, Tensor(-5.f)), 2, {.padding = nn::PaddingMode::Same});
  EXPECT_EQ(max(y).to<float>(), -5);
  EXPECT_EQ(y.shape(), Shape({1, 1, 2, 2}));
}

TEST(AvgPool2d, DoesNotCountPadding) {
  for (const nn::Padding2d padding : {nn::Padding2d(nn::PaddingMode::Same), nn::Padding2d(1)}) {
    const Tensor y = nn::avg_pool2d(ones({1, 1, 3, 3}), 2, {.padding = padding});
    EXPECT_EQ(min(y).to<float>(), 1);
    EXPECT_EQ(max(y).to<float>(), 1);
  }
}

TEST(BatchNorm, GivesTheStatisticsOfTheBatch) {
  const Tensor x({{1.0, 10.0}, {3.0, 30.0}});
  const nn::BatchNormResult result = nn::batch_norm(x, ones({2}, kFloat64), zeros({2}, kFloat64));
  EXPECT_EQ(result.mean.to_vector<double>(), (std::vector<double>{2, 20}));
  EXPECT_EQ(result.variance.to_vector<double>(), (std::vector<double>{2, 200}));
  EXPECT_NEAR(result.y.at<double>({0, 0}), -1, 1e-4);
}

TEST(BatchNorm, OfOneElementHasNoVariance) {
  const nn::BatchNormResult result = nn::batch_norm(Tensor({{3.f}}), ones({1}), zeros({1}));
  EXPECT_EQ(result.variance.to<float>(), 0);
  EXPECT_NEAR(result.y.to<float>(), 0, 1e-3);
}

TEST(BatchNorm, OfAnEmptyBatchIsEmpty) {
  const Tensor x = zeros({0, 2, 3, 3});
  const Tensor scale = ones({2});
  GradientTape tape;
  tape.watch(x);
  tape.watch(scale);
  const Tensor y = nn::batch_norm(x, scale, zeros({2})).y;
  EXPECT_EQ(y.shape(), x.shape());
  const Gradients gradients = tape.gradient(sum(y), std::vector<Tensor>{x, scale});
  EXPECT_EQ(gradients[1].dense().to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(BatchNorm, WithItsOwnStatisticsIsTheTrainingResult) {
  const Tensor x({{1.0, 10.0}, {3.0, 30.0}});
  const Tensor scale({0.5, 2.0});
  const Tensor offset({1.0, -1.0});
  const nn::BatchNormResult training = nn::batch_norm(x, scale, offset);
  // Training divides by n, the variance it gives by n - 1.
  const Tensor y = nn::batch_norm(x, scale, offset, training.mean, training.variance / 2.0);
  EXPECT_LT(max(abs(y - training.y)).to<double>(), 1e-12);
}

TEST(Dropout, ZeroesItsShareAndKeepsTheMean) {
  const Tensor y = nn::dropout(ones({100, 1000}), {.rate = 0.25});
  EXPECT_NEAR(mean(cast(y == 0, kFloat32)).to<float>(), 0.25f, 0.01f);
  EXPECT_NEAR(mean(y).to<float>(), 1, 0.02f);
  EXPECT_FLOAT_EQ(max(y).to<float>(), 4.f / 3);
}

TEST(Dropout, OfRateZeroChangesNothing) {
  EXPECT_EQ(min(nn::dropout(ones({50}), {.rate = 0})).to<float>(), 1);
}

TEST(Dropout, RepeatsWithTheSameSeed) {
  random::set_seed(7);
  const Tensor first = nn::dropout(ones({100}));
  const Tensor second = nn::dropout(ones({100}));
  random::set_seed(7);
  EXPECT_TRUE(static_cast<bool>(all(nn::dropout(ones({100})) == first)));
  EXPECT_FALSE(static_cast<bool>(all(second == first)));
}

TEST(Dropout, GradientPassesWhereTheValueDoes) {
  const Tensor x = ones({20});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = nn::dropout(x);
  EXPECT_TRUE(static_cast<bool>(all(Tensor(tape.gradient(sum(y), x)) == y)));
}

TEST(EmbeddingLookup, HasAGradientOfTheRowsItRead) {
  const Variable table({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  GradientTape tape;
  const Tensor rows = nn::embedding_lookup(table, Tensor({2, 0, 2}));
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{5, 6, 1, 2, 5, 6}));
  const Gradient gradient = tape.gradient(sum(rows), table);
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.dense().to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 2, 2}));
}

TEST(Dense, TakesLeadingDimensions) {
  const Tensor y = nn::dense(ones({2, 3, 4}), ones({4, 5}), ones({5}));
  EXPECT_EQ(y.shape(), Shape({2, 3, 5}));
  EXPECT_EQ(min(y).to<float>(), 5);
}

}  // namespace
}  // namespace cohort
