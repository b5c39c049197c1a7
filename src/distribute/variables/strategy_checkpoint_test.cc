// Checkpoints of what strategies keep: one value is saved, and any number of replicas gets it back.

#include <gtest/gtest.h>

#include <sstream>

#include "cohort/checkpoint.h"
#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

class StrategyCheckpoints : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }

 private:
  TemporaryDirectory directory_;
};

Variable on_read(Strategy& strategy, VariableAggregation aggregation) {
  return strategy.create([&] {
    return Variable(
        0.f, {.synchronization = VariableSynchronization::OnRead, .aggregation = aggregation});
  });
}

TEST_F(StrategyCheckpoints, KeepOneValueForAnyNumberOfReplicas) {
  const auto two = mirrored_strategy(2);
  const auto four = mirrored_strategy(4);
  const Variable mirrored = two->create([] { return Variable({1.f, 2.f}); });
  Variable total = on_read(*two, VariableAggregation::Sum);
  two->run(
      [&] { total.assign(get_replica_context()->replica_id_in_sync_group() == 0 ? 9.f : 3.f); });
  Checkpoint({{"w", mirrored}, {"total", total}}).write(path("ckpt"));
  const CheckpointReader reader(path("ckpt"));
  EXPECT_EQ(reader.tensors().size(), 3u);
  EXPECT_EQ(reader.read("total").to<float>(), 12);

  const Variable wide = four->create([] { return Variable({0.f, 0.f}); });
  const Variable wide_total = on_read(*four, VariableAggregation::Sum);
  Checkpoint({{"w", wide}, {"total", wide_total}}).read(path("ckpt")).assert_consumed();
  EXPECT_EQ(copy_values(wide_total), (std::vector<float>{3, 3, 3, 3}));
  four->run([&] { EXPECT_EQ(wide.read_value().to_vector<float>(), (std::vector<float>{1, 2})); });

  const Variable plain({0.f, 0.f});
  const Variable plain_total(0.f);
  Checkpoint({{"w", plain}, {"total", plain_total}}).read(path("ckpt")).assert_consumed();
  EXPECT_EQ(plain.read_value().to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(plain_total.read_value().to<float>(), 12);
}

TEST_F(StrategyCheckpoints, OfSharedVariablesAreInterchangeable) {
  const auto central = central_strategy(2);
  const Variable shared = central->create([] { return Variable(7.f); });
  Checkpoint({{"v", shared}}).write(path("ckpt"));
  const auto two = mirrored_strategy(2);
  const Variable mirrored = two->create([] { return Variable(0.f); });
  Checkpoint({{"v", mirrored}}).read(path("ckpt")).assert_consumed();
  EXPECT_EQ(copy_values(mirrored), (std::vector<float>{7, 7}));
}

TEST_F(StrategyCheckpoints, RefuseAVariableThatHasNoOneValue) {
  const auto strategy = mirrored_strategy(2);
  const Variable v = on_read(*strategy, VariableAggregation::None);
  EXPECT_ERROR(Code::InvalidArgument, "aggregation None",
               Checkpoint({{"v", v}}).write(path("ckpt")));
}

struct Training {
  explicit Training(Strategy& replicas)
      : strategy(replicas),
        model(strategy.create([] { return nn::Dense(2, 1); })),
        checkpoint({{"model", model}, {"optimizer", optimizer}}) {}

  void step() {
    const Tensor x({{1.f, 2.f}, {3.f, -1.f}});
    strategy.run([&] {
      GradientTape tape;
      const Tensor loss =
          mean(square(model(x) - 1.f)) / static_cast<double>(strategy.num_replicas_in_sync());
      optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    });
  }
  std::vector<float> kernel() const { return model.kernel().read_value().to_vector<float>(); }

  Strategy& strategy;
  nn::Dense model;
  optim::Adam optimizer{{.learning_rate = 0.1}};
  Checkpoint checkpoint;
};

TEST_F(StrategyCheckpoints, LetTrainingGoOnWithAnotherNumberOfReplicas) {
  const auto two = mirrored_strategy(2);
  Training first(*two);
  for (int i = 0; i < 3; ++i) first.step();
  first.checkpoint.write(path("ckpt"));
  for (int i = 0; i < 3; ++i) first.step();
  for (const int replicas : {1, 2, 3}) {
    const auto strategy = mirrored_strategy(replicas);
    Training other(*strategy);
    other.checkpoint.read(path("ckpt")).assert_consumed();
    for (int i = 0; i < 3; ++i) other.step();
    EXPECT_EQ(other.optimizer.iterations().read_value().to<int64_t>(), 6);
    const std::vector<float> found = other.kernel();
    const std::vector<float> expected = first.kernel();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
  }
}

std::string printed(const DistributedElement& element) {
  std::ostringstream out;
  out << element;
  return out.str();
}

TEST_F(StrategyCheckpoints, KeepTheMetricsAndThePositionOfDistributedDatasets) {
  const auto strategy = mirrored_strategy(2);
  metrics::Mean seen = strategy->create([] { return metrics::Mean("seen"); });
  const auto dataset = strategy->distribute_dataset(data::range(12).batch(4));
  DistributedIterator input = dataset.iterator();
  input.next();
  strategy->run([&] { seen.update(Tensor(2.f)); });
  Checkpoint checkpoint({{"seen", seen}, {"input", Trackable::position(dataset, input)}});
  checkpoint.write(path("ckpt"));
  const std::string expected = printed(input.next());
  strategy->run([&] { seen.update(Tensor(100.f)); });
  checkpoint.read(path("ckpt")).assert_consumed();
  EXPECT_EQ(printed(input.next()), expected);
  EXPECT_EQ(seen.result().to<double>(), 2);
}

TEST_F(StrategyCheckpoints, InGraphsAreSaversOfOneCopy) {
  const auto strategy = mirrored_strategy(2);
  Graph graph;
  const auto building = graph.as_default();
  const auto scope = strategy->scope();
  Variable w(5.f, {.name = "w"});
  const Tensor change = w.assign(Tensor(1.f));
  Saver saver;
  Session session;
  session.run(global_variables_initializer());
  saver.save(session, path("model"));
  const CheckpointReader reader(path("model"));
  ASSERT_EQ(reader.tensors().size(), 1u);
  EXPECT_EQ(reader.read("w").to<float>(), 5);
  session.run(change);
  saver.restore(session, path("model"));
  for (const Variable& copy : global_variables()) EXPECT_EQ(session.run(copy).to<float>(), 5);
  EXPECT_EQ(global_variables().size(), 2u);
}

}  // namespace
}  // namespace cohort
