#include "cohort/metrics.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "support/expect_error.h"

namespace cohort::metrics {
namespace {

double value(const Metric& metric) {
  const Tensor result = metric.result();
  EXPECT_EQ(result.dtype(), kFloat64);
  EXPECT_EQ(result.shape(), Shape());
  return result.to<double>();
}

TEST(MeanMetric, IsOverAllValues) {
  Mean mean;
  EXPECT_EQ(value(mean), 0);
  mean.update(Tensor({1.f, 2.f, 3.f}));
  mean.update(Tensor(10));
  mean.update(zeros({0}));
  EXPECT_EQ(value(mean), 4);
}

TEST(MeanMetric, TakesWeights) {
  Mean mean;
  mean.update(Tensor({{1.0, 2.0}, {3.0, 4.0}}), Tensor({1.0, 0.0}));
  EXPECT_EQ(value(mean), 2);
  mean.update(Tensor({5.0}), Tensor(2));
  EXPECT_EQ(value(mean), 3.5);
}

TEST(MeanMetric, IsZeroWithoutWeight) {
  Mean mean;
  mean.update(Tensor({1.0, 2.0}), Tensor(0.0));
  EXPECT_EQ(value(mean), 0);
}

TEST(MeanMetric, TakesNegativeWeights) {
  Mean mean;
  mean.update(Tensor({1.0, 3.0}), Tensor(-1.0));
  EXPECT_EQ(value(mean), 2);
}

TEST(MeanMetric, SumsInFloat64) {
  Mean mean;
  for (int i = 0; i < 100; ++i) mean.update(fill({1000}, Tensor(0.1f)));
  EXPECT_NEAR(value(mean), static_cast<double>(0.1f), 1e-12);
}

TEST(MeanMetric, StartsAnewAfterReset) {
  Mean mean("loss");
  mean.update(Tensor(5.0));
  mean.reset();
  EXPECT_EQ(value(mean), 0);
  mean.update(Tensor(7.0));
  EXPECT_EQ(value(mean), 7);
}

TEST(MeanMetric, KeepsSumsThatReplicasAddUp) {
  const Mean mean("loss");
  EXPECT_EQ(mean.name(), "loss");
  ASSERT_EQ(mean.variables().size(), 2u);
  EXPECT_EQ(mean.variables()[0].name(), "loss/total");
  EXPECT_EQ(mean.variables()[1].name(), "loss/count");
  for (const Variable& variable : mean.variables()) {
    EXPECT_EQ(variable.synchronization(), VariableSynchronization::OnRead);
    EXPECT_EQ(variable.aggregation(), VariableAggregation::Sum);
    EXPECT_FALSE(variable.trainable());
  }
}

TEST(MeanMetric, NamesWrongValues) {
  Mean mean;
  EXPECT_ERROR(Code::InvalidArgument, "[Mean] values must be numbers, got string",
               mean.update(Tensor({"a"})));
  EXPECT_ERROR(Code::InvalidArgument, "(3,)", mean.update(ones({2}), ones({3})));
  EXPECT_EQ(value(mean), 0);
}

TEST(AccuracyMetric, IsTheShareOfEqualValues) {
  Accuracy accuracy;
  accuracy.update(Tensor({1, 2, 3, 4}), Tensor({1, 0, 3, 0}));
  EXPECT_EQ(value(accuracy), 0.5);
  accuracy.update(Tensor({{1}, {1}}), Tensor({{1.f}, {1.f}}));
  EXPECT_DOUBLE_EQ(value(accuracy), 4.0 / 6);
  EXPECT_ERROR(Code::InvalidArgument,
               "[Accuracy] labels of shape (2,) do not fit predictions of shape (3,)",
               accuracy.update(ones({2}), ones({3})));
  accuracy.reset();
  EXPECT_EQ(value(accuracy), 0);
}

TEST(SparseCategoricalAccuracyMetric, ComparesTheLargestScoreWithTheLabel) {
  SparseCategoricalAccuracy accuracy;
  const Tensor scores({{0.1f, 0.9f}, {0.8f, 0.2f}, {0.3f, 0.7f}});
  accuracy.update(Tensor({1, 0, 0}), scores);
  EXPECT_DOUBLE_EQ(value(accuracy), 2.0 / 3);
  accuracy.update(cast(Tensor({1, 0, 1}), kUInt8), scores);
  EXPECT_DOUBLE_EQ(value(accuracy), 5.0 / 6);
}

TEST(SparseCategoricalAccuracyMetric, NamesWrongShapes) {
  SparseCategoricalAccuracy accuracy;
  EXPECT_ERROR(Code::InvalidArgument, "scores must have shape (n, classes), got (3,)",
               accuracy.update(Tensor({1}), ones({3})));
  EXPECT_ERROR(Code::InvalidArgument, "labels of shape (2,) do not fit scores of shape (3,)",
               accuracy.update(Tensor({1, 0}), ones({3, 2})));
  EXPECT_ERROR(Code::InvalidArgument, "labels must be integers, got float32",
               accuracy.update(ones({3}), ones({3, 2})));
}

// The chance that a positive scores higher than a negative, counted pair by pair; ties are half.
double counted_auc(const std::vector<int>& labels, const std::vector<double>& scores) {
  double wins = 0;
  double pairs = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      ++pairs;
      wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return wins / pairs;
}

TEST(AucMetric, IsCloseToCountingPairs) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform;
  std::vector<int> labels;
  std::vector<double> scores;
  Auc auc({.thresholds = 1000});
  for (int batch = 0; batch < 4; ++batch) {
    std::vector<int> some_labels;
    std::vector<double> some_scores;
    for (int i = 0; i < 200; ++i) {
      some_labels.push_back(uniform(random) < 0.3 ? 1 : 0);
      const double noise = uniform(random);
      some_scores.push_back(some_labels.back() == 1 ? 0.3 + 0.7 * noise : 0.8 * noise);
    }
    auc.update(Tensor::from(some_labels), Tensor::from(some_scores));
    labels.insert(labels.end(), some_labels.begin(), some_labels.end());
    scores.insert(scores.end(), some_scores.begin(), some_scores.end());
  }
  EXPECT_NEAR(value(auc), counted_auc(labels, scores), 1e-3);
}

TEST(AucMetric, KnowsTheExtremes) {
  Auc auc;
  auc.update(Tensor({0, 0, 1, 1}), Tensor({0.0, 0.2, 0.7, 1.0}));
  EXPECT_DOUBLE_EQ(value(auc), 1);
  auc.reset();
  auc.update(Tensor({1, 1, 0, 0}), Tensor({0.0, 0.2, 0.7, 1.0}));
  EXPECT_DOUBLE_EQ(value(auc), 0);
  auc.reset();
  auc.update(Tensor({true, false}), Tensor({0.5f, 0.5f}));
  EXPECT_DOUBLE_EQ(value(auc), 0.5);
}

TEST(AucMetric, IsZeroWhileAClassIsMissing) {
  Auc auc;
  EXPECT_EQ(value(auc), 0);
  auc.update(Tensor({1, 1}), Tensor({0.5, 0.6}));
  EXPECT_EQ(value(auc), 0);
}

TEST(AucMetric, NamesWrongInputs) {
  EXPECT_ERROR(Code::InvalidArgument, "[Auc] needs at least 2 thresholds, got 1",
               Auc({.thresholds = 1}));
  EXPECT_ERROR(Code::InvalidArgument, "at least 2 thresholds, got -5", Auc({.thresholds = -5}));
  Auc auc;
  EXPECT_ERROR(Code::InvalidArgument, "scores must be in [0, 1]; apply sigmoid()",
               auc.update(Tensor({1}), Tensor({1.5})));
  EXPECT_ERROR(Code::InvalidArgument, "scores must be in [0, 1]",
               auc.update(Tensor({1}), Tensor({std::numeric_limits<double>::quiet_NaN()})));
  EXPECT_ERROR(Code::InvalidArgument, "[Auc] labels must be 0 or 1",
               auc.update(Tensor({2}), Tensor({0.5})));
  EXPECT_ERROR(Code::InvalidArgument, "[Auc] labels of shape (2,) do not fit scores of shape (1,)",
               auc.update(Tensor({1, 0}), Tensor({0.5})));
  EXPECT_EQ(value(auc), 0);
}

TEST(Metrics, AreNotRecorded) {
  const Tensor x({{0.25, 0.75}});
  GradientTape tape;
  tape.watch(x);
  Mean mean;
  mean.update(x);
  SparseCategoricalAccuracy accuracy;
  accuracy.update(Tensor({1}), x);
  EXPECT_FALSE(tape.gradient(mean.result(), x).defined());
}

}  // namespace
}  // namespace cohort::metrics
