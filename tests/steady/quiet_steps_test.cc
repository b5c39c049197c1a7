// COHORT_LOG=info is for reading: training writes nothing there once per step.

#include <gtest/gtest.h>

#include <optional>

#include "base/log.h"
#include "cohort/cohort.h"
#include "cohort/collective.h"
#include "support/local_workers.h"
#include "support/log_file.h"

namespace cohort {
namespace {

class QuietSteps : public testing::Test {
 protected:
  QuietSteps() { internal::set_log_level(internal::LogLevel::Info); }
  ~QuietSteps() override { internal::set_log_level(internal::LogLevel::Warning); }

  // The first steps may say what they make.
  static void expect_quiet(const std::function<void()>& step) {
    for (int i = 0; i < 5; ++i) step();
    const test::LogFile log;
    for (int i = 0; i < 20; ++i) step();
    EXPECT_EQ(log.text(), "");
  }
};

// One step of a small model under `strategy`, with elements of a distributed dataset.
std::function<void()> training_step(Strategy& strategy) {
  struct Parts {
    nn::Dense layer{2, 1};
    optim::Sgd optimizer{{.momentum = 0.9}};
    std::optional<DistributedIterator> input;
  };
  const auto parts = strategy.create([] { return std::make_shared<Parts>(); });
  parts->input = strategy.distribute_dataset(data::from_tensors(ones({4, 2})).repeat()).iterator();
  const auto train = function([parts](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = sum(parts->layer(x));
    parts->optimizer.apply_gradients(tape.gradient(loss, parts->layer.variables()),
                                     parts->layer.variables());
    return loss;
  });
  return [&strategy, parts, train] {
    strategy.reduce(ReduceOp::Sum, strategy.run(train, parts->input->next()));
  };
}

TEST_F(QuietSteps, OfReplicas) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  expect_quiet(training_step(strategy));
}

TEST_F(QuietSteps, OfWorkers) {
  std::optional<test::LogFile> log;
  std::string text;
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto step = training_step(strategy);
    for (int i = 0; i < 5; ++i) step();
    strategy.communicator().barrier();
    if (strategy.is_chief()) log.emplace();
    strategy.communicator().barrier();
    for (int i = 0; i < 20; ++i) step();
    strategy.communicator().barrier();
    if (strategy.is_chief()) text = log->text();
  });
  EXPECT_EQ(text, "");
}

TEST_F(QuietSteps, OfATrainer) {
  std::optional<test::LogFile> log;
  const auto listen = std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_step_end = [&](Trainer& trainer, const Logs&) {
        if (trainer.progress().step == 5) log.emplace();
        if (trainer.progress().step == 25) {
          EXPECT_EQ(log->text(), "");
        }
      }});
  nn::Dense layer(2, 1);
  optim::Sgd optimizer;
  Trainer(layer, nn::mean_squared_error, optimizer)
      .fit(data::from_tensors(data::Element::tuple(std::vector{ones({4, 2}), ones({4, 1})}))
               .repeat(30),
           {.callbacks = {listen}, .progress = false});
  EXPECT_TRUE(log.has_value());
}

TEST_F(QuietSteps, OfASession) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {2});
  const Tensor y = x * 2.f;
  Session session;
  expect_quiet([&] { session.run(y, {{x, Tensor({1.f, 2.f})}}); });
}

// Each call has a shape of its own.
TEST_F(QuietSteps, OfAFunctionThatIsTracedInEach) {
  const auto twice = function([](const Tensor& x) {
    (void)x.shape()[0];
    return x * 2.f;
  });
  int64_t width = 0;
  expect_quiet([&] { twice(ones({2, ++width})); });
}

}  // namespace
}  // namespace cohort
