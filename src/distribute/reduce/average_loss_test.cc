// Losses that replicas share: the sum of the replicas' parts is the mean over the global batch.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Numbers = std::vector<float>;

data::Dataset numbers(int64_t count) {
  return data::from_tensor_slices(cast(range(count), kFloat32));
}

TEST(AverageLoss, WithoutAStrategyIsTheMean) {
  const Tensor losses({1.f, 2.f, 6.f});
  EXPECT_FLOAT_EQ(nn::compute_average_loss(losses).to<float>(), 3);
  EXPECT_FLOAT_EQ(nn::compute_average_loss(losses, {.global_batch_size = 6}).to<float>(), 1.5f);
  EXPECT_FLOAT_EQ(nn::compute_average_loss(zeros({0})).to<float>(), 0);
  // Two numbers per example: the sum over all, divided by the examples.
  EXPECT_FLOAT_EQ(nn::compute_average_loss(ones({3, 2})).to<float>(), 2);
}

TEST(AverageLoss, WeighsEachSample) {
  const Tensor losses({{1.f, 2.f}, {3.f, 4.f}});
  const auto average = [&](const Tensor& weight) {
    return nn::compute_average_loss(losses, {.sample_weight = weight}).to<float>();
  };
  EXPECT_FLOAT_EQ(average(Tensor({1.f, 0.f})), 1.5f);
  EXPECT_FLOAT_EQ(average(Tensor({{1.f}, {0.f}})), 1.5f);
  EXPECT_FLOAT_EQ(average(Tensor({0, 2})), 7);
  EXPECT_FLOAT_EQ(average(Tensor(2.f)), 10);
  EXPECT_FLOAT_EQ(average(Tensor({{1.f, 0.f}, {0.f, 1.f}})), 2.5f);
  EXPECT_FLOAT_EQ(
      nn::compute_average_loss(Tensor({1.f, 3.f}), {.sample_weight = ones({2, 1})}).to<float>(), 2);
  EXPECT_ERROR(Code::InvalidArgument, "sample_weight must have the shape of the losses, (2,)",
               nn::compute_average_loss(Tensor({1.f, 3.f}), {.sample_weight = ones({2, 2})}));
}

TEST(AverageLoss, NamesWhatDoesNotFit) {
  EXPECT_ERROR(Code::InvalidArgument, "float32 of shape ()", nn::compute_average_loss(Tensor(1.f)));
  EXPECT_ERROR(Code::InvalidArgument, "int32 of shape (2,)",
               nn::compute_average_loss(Tensor({1, 2})));
  EXPECT_ERROR(Code::InvalidArgument, "must be an integer, got float32",
               nn::compute_average_loss(ones({2}), {.global_batch_size = 2.f}));
  EXPECT_ERROR(Code::InvalidArgument, "must be at least 1, got -1",
               nn::compute_average_loss(ones({2}), {.global_batch_size = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "must be at least 1, got 0 for losses of shape (2,)",
               nn::compute_average_loss(ones({2}), {.global_batch_size = 0}));
  EXPECT_EQ(nn::compute_average_loss(ones({0}), {.global_batch_size = 0}).to<float>(), 0.f);
}

TEST(AverageLoss, NeedsAReplicaToKnowTheGlobalBatch) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  EXPECT_ERROR(Code::FailedPrecondition, "call it inside run(), or set global_batch_size",
               nn::compute_average_loss(ones({2})));
  EXPECT_EQ(nn::compute_average_loss(ones({2}), {.global_batch_size = 4}).to<float>(), 0.5f);
  EXPECT_ERROR(Code::FailedPrecondition, "[scale_regularization_loss] expected a replica",
               nn::scale_regularization_loss(Tensor(1.f)));
}

TEST(AverageLoss, OfReplicasAddsUpToTheMeanOverTheGlobalBatch) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto step = [&](const DistributedElement& batch) {
    return strategy.reduce(
        ReduceOp::Sum,
        strategy.run([](const Tensor& x) { return nn::compute_average_loss(x); }, batch));
  };
  const auto traced = function(step);
  for (const auto& batch : strategy.distribute_dataset(numbers(8).batch(4))) {
    const float expected = batch[0].tensor()[0].to<float>() + 1.5f;
    EXPECT_FLOAT_EQ(step(batch).to<float>(), expected);
    EXPECT_FLOAT_EQ(traced(batch).to<float>(), expected);
  }
  EXPECT_EQ(traced.num_traces(), 1u);
}

// The last batch has one sample for two replicas.
class UnevenSteps : public ::testing::TestWithParam<int> {
 protected:
  UnevenSteps() {
    std::vector<std::string> devices;
    for (int i = 0; i < GetParam(); ++i) devices.push_back("CPU:" + std::to_string(i));
    strategy_ = std::make_unique<MirroredStrategy>(devices);
  }
  Tensor mean_of(const DistributedElement& batch) const {
    const Tensor samples = batch.global_batch_size();
    const auto part = [&](const Tensor& x) {
      return nn::compute_average_loss(x, {.global_batch_size = samples});
    };
    return strategy_->reduce(ReduceOp::Sum, strategy_->run(part, batch));
  }
  DistributedDataset batches() const { return strategy_->distribute_dataset(numbers(9).batch(4)); }

  const Numbers expected_{1.5f, 5.5f, 8};
  std::unique_ptr<MirroredStrategy> strategy_;
};
INSTANTIATE_TEST_SUITE_P(Replicas, UnevenSteps, ::testing::Values(1, 2));

TEST_P(UnevenSteps, KnowTheGlobalBatch) {
  Numbers found;
  for (const auto& batch : batches()) found.push_back(mean_of(batch).to<float>());
  EXPECT_EQ(found, expected_);
}

TEST_P(UnevenSteps, KnowTheGlobalBatchInAFunctionThatTakesThem) {
  const auto step = function([&](const DistributedElement& batch) {
    EXPECT_ERROR(Code::FailedPrecondition, "use global_batch_size()", batch.global_sample_count());
    return mean_of(batch);
  });
  Numbers found;
  for (const auto& batch : batches()) found.push_back(step(batch).to<float>());
  EXPECT_EQ(found, expected_);
}

TEST_P(UnevenSteps, KnowTheGlobalBatchInAFunctionThatIterates) {
  const auto step = function([&](DistributedIterator it) { return mean_of(it.next()); });
  const DistributedIterator it = batches().iterator();
  Numbers found;
  for (size_t i = 0; i < expected_.size(); ++i) found.push_back(step(it).to<float>());
  EXPECT_EQ(found, expected_);
  EXPECT_ERROR(Code::OutOfRange, "", step(it));
}

// What TensorFlow's tutorial on custom training does: the gradient is that of one whole batch.
TEST(RegularizationLoss, OfReplicasAddsUpToTheWholePenalty) {
  const auto gradient_under = [](Strategy* strategy, bool traced) {
    std::optional<StrategyScope> scope;
    if (strategy != nullptr) scope.emplace(*strategy);
    const nn::Dense model(1, 1,
                          {.kernel_initializer = nn::constant(3),
                           .kernel_regularizer = nn::l2(0.5),
                           .bias_regularizer = nn::l1(0.25)});
    optim::Sgd optimizer({.learning_rate = 1});
    const auto replica_step = [&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = nn::compute_average_loss(reshape(model(reshape(x, {-1, 1})), {-1})) +
                          nn::scale_regularization_loss(model.losses());
      const std::vector<Variable> variables = model.trainable_variables();
      optimizer.apply_gradients(tape.gradient(loss, variables), variables);
      return loss;
    };
    const auto step = [&](const DistributedElement& batch) {
      return get_strategy().reduce(ReduceOp::Sum, get_strategy().run(replica_step, batch));
    };
    const auto traced_step = function(step);
    Numbers found;
    for (const auto& batch : get_strategy().distribute_dataset(numbers(4).batch(4))) {
      found.push_back((traced ? traced_step(batch) : step(batch)).to<float>());
    }
    found.push_back(model.kernel().read_value().to<float>());
    return found;
  };
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  OneDeviceStrategy one("CPU:0");
  // mean(3 x) + 0.5 * 9, and 3 - (mean(x) + 3).
  for (Strategy* strategy : std::initializer_list<Strategy*>{nullptr, &one, &mirrored}) {
    for (const bool traced : {false, true}) {
      EXPECT_EQ(gradient_under(strategy, traced), (Numbers{9, -1.5f}))
          << (strategy == nullptr ? "no strategy" : strategy->to_string()) << traced;
    }
  }
}

TEST(RegularizationLoss, OfNoneIsZero) {
  EXPECT_EQ(nn::scale_regularization_loss(std::vector<Tensor>()).to<float>(), 0);
  EXPECT_EQ(nn::scale_regularization_loss({Tensor(1.f), Tensor({2.f, 3.f})}).to<float>(), 6);
}

}  // namespace
}  // namespace cohort
