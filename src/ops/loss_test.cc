#include <gtest/gtest.h>

#include <cmath>

#include "cohort/nn_layers.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

const Tensor kLogits({{2.0, 0.5, -1.0}, {0.0, 1.0, 3.0}});

double log_sum_exp(double a, double b, double c) {
  return std::log(std::exp(a) + std::exp(b) + std::exp(c));
}

TEST(SoftmaxCrossEntropy, IsMinusTheLogProbabilityOfTheClass) {
  const Tensor losses =
      nn::softmax_cross_entropy(kLogits, Tensor({0, 1}), {.reduction = nn::Reduction::None});
  EXPECT_EQ(losses.shape(), Shape({2}));
  EXPECT_NEAR(losses.at<double>({0}), log_sum_exp(2, 0.5, -1) - 2, 1e-12);
  EXPECT_NEAR(losses.at<double>({1}), log_sum_exp(0, 1, 3) - 1, 1e-12);
}

TEST(SoftmaxCrossEntropy, OfOneHotProbabilitiesIsThatOfClassIds) {
  const Tensor ids({int64_t{2}, int64_t{1}});
  const double sparse = nn::softmax_cross_entropy(kLogits, ids).to<double>();
  const double dense = nn::softmax_cross_entropy(kLogits, one_hot(ids, 3, kFloat64)).to<double>();
  EXPECT_NEAR(sparse, dense, 1e-12);
}

TEST(SoftmaxCrossEntropy, TakesClassIdsOfEveryIntegerDtype) {
  const double expected = nn::softmax_cross_entropy(kLogits, Tensor({0, 2})).to<double>();
  for (const DType dtype : {kInt8, kInt16, kInt32, kInt64, kUInt8}) {
    const Tensor ids = cast(Tensor({0, 2}), dtype);
    EXPECT_EQ(nn::softmax_cross_entropy(kLogits, ids).to<double>(), expected) << dtype;
  }
}

TEST(SoftmaxCrossEntropy, TakesSequences) {
  const Tensor logits = ones({2, 4, 3}, kFloat64);
  const Tensor losses =
      nn::softmax_cross_entropy(logits, zeros({2, 4}, kInt32), {.reduction = nn::Reduction::None});
  EXPECT_EQ(losses.shape(), Shape({2, 4}));
  EXPECT_NEAR(losses.at<double>({1, 3}), std::log(3.0), 1e-12);
}

TEST(SoftmaxCrossEntropy, GradientIsSoftmaxMinusOneHot) {
  GradientTape tape;
  tape.watch(kLogits);
  const Tensor labels({0, 2});
  const Tensor loss = nn::softmax_cross_entropy(kLogits, labels, {.reduction = nn::Reduction::Sum});
  const Tensor gradient = tape.gradient(loss, kLogits);
  const Tensor expected = nn::softmax(kLogits) - one_hot(cast(labels, kInt64), 3, kFloat64);
  EXPECT_LT(max(abs(gradient - expected)).to<double>(), 1e-12);
}

TEST(SoftmaxCrossEntropy, StaysFiniteForExtremeLogits) {
  const Tensor logits({{1e4f, -1e4f}, {-1e4f, 1e4f}});
  const Tensor loss = nn::softmax_cross_entropy(logits, Tensor({1, 1}));
  EXPECT_FLOAT_EQ(loss.to<float>(), 1e4f);
}

TEST(SoftmaxCrossEntropy, OfAnEmptyShareOfABatchIsZero) {
  const Tensor loss =
      nn::softmax_cross_entropy(zeros({0, 3}), zeros({0}, kInt32), {.global_batch_size = 8});
  EXPECT_EQ(loss.to<float>(), 0);
}

TEST(SoftmaxCrossEntropy, NamesABoolLabel) {
  EXPECT_ERROR(Code::InvalidArgument, "input 1 is bool",
               nn::softmax_cross_entropy(kLogits, Tensor({true, false})));
}

TEST(Losses, SumOverPartsOfAGlobalBatchIsItsMean) {
  const Tensor predictions({{1.0, 2.0}, {3.0, 5.0}, {-1.0, 0.5}});
  const Tensor targets({{0.0, 2.5}, {2.0, 2.0}, {1.0, 1.0}});
  const double whole = nn::mean_squared_error(predictions, targets).to<double>();
  double sum_of_parts = 0;
  for (const Range range : {Range{0, 1}, Range{1, 3}}) {
    sum_of_parts += nn::mean_squared_error(slice(predictions, {range}), slice(targets, {range}),
                                           {.global_batch_size = 3})
                        .to<double>();
  }
  EXPECT_NEAR(sum_of_parts, whole, 1e-12);
}

TEST(Losses, SigmoidCrossEntropyTakesBoolsAndIntegersAsLabels) {
  const Tensor logits({0.5, -1.5});
  const double expected = nn::sigmoid_cross_entropy(logits, Tensor({1.0, 0.0})).to<double>();
  EXPECT_EQ(nn::sigmoid_cross_entropy(logits, Tensor({true, false})).to<double>(), expected);
  EXPECT_EQ(nn::sigmoid_cross_entropy(logits, Tensor({1, 0})).to<double>(), expected);
}

TEST(Losses, BinaryCrossEntropyIsThatOfTheLogitsOfItsProbabilities) {
  const Tensor logits({0.5, -1.5, 3.0});
  for (const Tensor& labels : {Tensor({1.0, 0.0, 0.25}), Tensor({true, false, true})}) {
    const Tensor expected =
        nn::sigmoid_cross_entropy(logits, labels, {.reduction = nn::Reduction::None});
    const Tensor found =
        nn::binary_cross_entropy(nn::sigmoid(logits), labels, {.reduction = nn::Reduction::None});
    EXPECT_LT(max(abs(found - expected)).to<double>(), 1e-12);
  }
  GradientTape tape;
  tape.watch(logits);
  const Tensor loss = nn::binary_cross_entropy(nn::sigmoid(logits), Tensor({1.0, 0.0, 0.25}));
  const Tensor slope = (nn::sigmoid(logits) - Tensor({1.0, 0.0, 0.25})) / 3.0;
  EXPECT_LT(max(abs(tape.gradient(loss, logits).dense() - slope)).to<double>(), 1e-12);
}

TEST(Losses, BinaryCrossEntropyIsFiniteForCertainMistakes) {
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    const Tensor loss =
        nn::binary_cross_entropy(cast(Tensor({0.f, 1.f}), dtype), cast(Tensor({1.f, 0.f}), dtype));
    EXPECT_EQ(loss.dtype(), dtype);
    EXPECT_NEAR(loss.to<double>(), -std::log(1e-7), 0.2) << dtype;
  }
  const Tensor sure({0.f, 1.f});
  EXPECT_NEAR(nn::binary_cross_entropy(sure, sure).to<float>(), 0, 1e-6);
  EXPECT_ERROR(Code::InvalidArgument, "of the same shape, got float32 (2,) and float32 (1,)",
               nn::binary_cross_entropy(sure, Tensor({1.f})));
}

TEST(Losses, L2LossIsHalfTheSumOfSquares) {
  EXPECT_FLOAT_EQ(nn::l2_loss(Tensor({3.f, 4.f})).to<float>(), 12.5f);
}

}  // namespace
}  // namespace cohort
