// N replicas on a global batch learn what one replica learns on it, whatever the optimizer.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cohort/nn_layers.h"
#include "cohort/ops.h"
#include "cohort/optim.h"
#include "cohort/random.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

struct Batch {
  Tensor images;
  Tensor labels;
  int64_t size;
};

constexpr int64_t kInputs = 6;
constexpr int64_t kClasses = 3;

// Batches of 12, the last of each epoch smaller than the number of replicas.
std::vector<Batch> make_batches(int steps, DType dtype) {
  random::Generator generator(3);
  std::vector<Batch> batches;
  for (int i = 0; i < steps; ++i) {
    const int64_t size = i % 5 == 4 ? 3 : 12;
    batches.push_back({generator.normal({size, kInputs}, {.dtype = dtype}),
                       generator.randint({size}, 0, kClasses), size});
  }
  return batches;
}

// Rows of `x` for one of `replicas`; the shares may be uneven, and empty.
Tensor share(const Tensor& x, int64_t size, int replica, int replicas) {
  return slice(x, {{.begin = size * replica / replicas, .end = size * (replica + 1) / replicas}});
}

struct Model {
  explicit Model(DType dtype)
      : hidden(kInputs, 8, {.dtype = dtype}), output(8, kClasses, {.dtype = dtype}) {}
  Tensor operator()(const Tensor& x) const { return output(nn::tanh(hidden(x))); }
  std::vector<Variable> variables() const {
    std::vector<Variable> all = hidden.variables();
    for (const Variable& variable : output.variables()) all.push_back(variable);
    return all;
  }
  nn::Dense hidden;
  nn::Dense output;
};

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>()>;

template <typename Kind, typename Options>
MakeOptimizer make(const Options& options) {
  return [options] { return std::make_unique<Kind>(options); };
}

struct NamedOptimizer {
  std::string name;
  MakeOptimizer make;
};

std::vector<NamedOptimizer> optimizers() {
  using namespace optim;
  return {
      {"sgd", make<Sgd>(SgdOptions{.learning_rate = 0.1})},
      {"momentum", make<Sgd>(SgdOptions{.learning_rate = 0.05, .momentum = 0.9})},
      {"nesterov",
       make<Sgd>(SgdOptions{
           .learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3})},
      {"clipped",
       make<Sgd>(SgdOptions{.learning_rate = 0.5,
                            .clipping = {.value = 0.2, .norm = 0.3, .global_norm = 0.4}})},
      {"decayed", make<Sgd>(SgdOptions{.learning_rate = exponential_decay(
                                           {.initial_rate = 0.2, .decay_steps = 10})})},
      {"adam", make<Adam>(AdamOptions{.learning_rate = 0.01})},
      {"adamw", make<AdamW>(AdamWOptions{.learning_rate = 0.01})},
      {"adagrad", make<Adagrad>(AdagradOptions{.learning_rate = 0.05})},
      {"rms_prop", make<RmsProp>(RmsPropOptions{.learning_rate = 0.005})},
      {"rms_prop_centered",
       make<RmsProp>(RmsPropOptions{.learning_rate = 0.005, .momentum = 0.5, .centered = true})},
      {"tensorflow_momentum", make<Sgd>(SgdOptions{.formula = Formula::TensorFlow,
                                                   .learning_rate = exponential_decay(
                                                       {.initial_rate = 0.1, .decay_steps = 5}),
                                                   .momentum = 0.9})},
      {"tensorflow_rms_prop",
       make<RmsProp>(RmsPropOptions{
           .formula = Formula::TensorFlow, .learning_rate = 0.005, .momentum = 0.5})},
      {"ftrl", make<Ftrl>(FtrlOptions{.learning_rate = 0.1, .l1 = 1e-3, .l2 = 1e-3})},
  };
}

struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<double>> parameters;
  int64_t iterations;
};

Tensor train_step(const Model& model, optim::Optimizer& optimizer, const Tensor& images,
                  const Tensor& labels, int64_t global_batch) {
  GradientTape tape;
  const Tensor loss =
      nn::softmax_cross_entropy(model(images), labels, {.global_batch_size = global_batch});
  optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
  return loss;
}

Outcome outcome_of(const Model& model, const optim::Optimizer& optimizer,
                   std::vector<double> losses) {
  Outcome outcome{std::move(losses), {}, optimizer.iterations().read_value().to<int64_t>()};
  for (const Variable& variable : model.variables()) {
    outcome.parameters.push_back(variable.read_value().to_vector<double>());
  }
  return outcome;
}

Outcome train_alone(const MakeOptimizer& make, const std::vector<Batch>& batches, DType dtype) {
  random::set_seed(11);
  const Model model(dtype);
  const auto optimizer = make();
  std::vector<double> losses;
  for (const Batch& batch : batches) {
    losses.push_back(
        train_step(model, *optimizer, batch.images, batch.labels, batch.size).to<double>());
  }
  return outcome_of(model, *optimizer, std::move(losses));
}

void expect_equal_copies(const Model& model) {
  for (const Variable& variable : model.variables()) {
    const auto& copies = internal::distributed(variable)->copies();
    const auto first = copies[0].read_value().to_vector<double>();
    for (const Variable& copy : copies) {
      EXPECT_EQ(copy.read_value().to_vector<double>(), first) << copy.name();
    }
  }
}

Outcome train_together(Strategy& strategy, const MakeOptimizer& make,
                       const std::vector<Batch>& batches, DType dtype) {
  const StrategyScope scope(strategy);
  random::set_seed(11);
  const Model model(dtype);
  const auto optimizer = make();
  std::vector<double> losses;
  for (const Batch& batch : batches) {
    const auto each = strategy.run([&] {
      const ReplicaContext& replica = *get_replica_context();
      const int id = replica.replica_id_in_sync_group();
      const int replicas = replica.num_replicas_in_sync();
      return train_step(model, *optimizer, share(batch.images, batch.size, id, replicas),
                        share(batch.labels, batch.size, id, replicas), batch.size);
    });
    losses.push_back(strategy.reduce(ReduceOp::Sum, each).to<double>());
  }
  if (internal::distributed(model.variables()[0]) != nullptr) expect_equal_copies(model);
  return outcome_of(model, *optimizer, std::move(losses));
}

void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                  double relative, double absolute) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], relative * std::abs(expected[i]) + absolute) << "at " << i;
  }
}

constexpr int kSteps = 100;

TEST(CorrectSums, InFloat32EqualThoseOfOneReplicaForEveryOptimizer) {
  const std::vector<Batch> batches = make_batches(kSteps, kFloat32);
  for (const NamedOptimizer& optimizer : optimizers()) {
    const Outcome alone = train_alone(optimizer.make, batches, kFloat32);
    for (int replicas = 1; replicas <= 4; ++replicas) {
      SCOPED_TRACE(optimizer.name + " on " + std::to_string(replicas));
      const auto strategy = mirrored_strategy(replicas);
      const Outcome together = train_together(*strategy, optimizer.make, batches, kFloat32);
      expect_close(together.losses, alone.losses, 1e-6, 0);
      EXPECT_EQ(together.iterations, kSteps);
    }
  }
}

TEST(CorrectSums, InFloat64GiveTheParametersOfOneReplicaForEveryOptimizer) {
  const std::vector<Batch> batches = make_batches(kSteps, kFloat64);
  for (const NamedOptimizer& optimizer : optimizers()) {
    const Outcome alone = train_alone(optimizer.make, batches, kFloat64);
    for (int replicas = 1; replicas <= 4; ++replicas) {
      SCOPED_TRACE(optimizer.name + " on " + std::to_string(replicas));
      const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(replicas),
                                                      central_strategy(replicas)};
      for (const auto& strategy : strategies) {
        const Outcome together = train_together(*strategy, optimizer.make, batches, kFloat64);
        for (size_t i = 0; i < alone.parameters.size(); ++i) {
          expect_close(together.parameters[i], alone.parameters[i], 0, 1e-9);
        }
      }
    }
  }
}

TEST(CorrectSums, AreTheSameInEveryRun) {
  const std::vector<Batch> batches = make_batches(20, kFloat32);
  const MakeOptimizer adam = make<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01});
  const auto strategy = mirrored_strategy(3);
  const Outcome first = train_together(*strategy, adam, batches, kFloat32);
  const Outcome second = train_together(*strategy, adam, batches, kFloat32);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.parameters, second.parameters);
}

// Adds up the gradients of `every` batches and then updates: outside of a strategy, and with sums
// that each replica keeps for itself.
std::vector<double> accumulate(Strategy* strategy, const std::vector<Batch>& batches, int every) {
  random::set_seed(11);
  const Model model(kFloat64);
  optim::Sgd optimizer({.learning_rate = 0.1, .momentum = 0.9});
  std::vector<Variable> sums;
  for (const Variable& variable : model.variables()) {
    sums.emplace_back(zeros(variable.shape(), kFloat64),
                      VariableOptions{.synchronization = VariableSynchronization::OnRead,
                                      .aggregation = VariableAggregation::Sum});
  }
  int seen = 0;
  const auto step = [&](const Batch& batch, int id, int replicas, bool update) {
    GradientTape tape;
    const Tensor loss = nn::softmax_cross_entropy(
        model(share(batch.images, batch.size, id, replicas)),
        share(batch.labels, batch.size, id, replicas), {.global_batch_size = batch.size * every});
    const Gradients gradients = tape.gradient(loss, model.variables());
    for (size_t i = 0; i < sums.size(); ++i) sums[i].assign_add(gradients[i].dense());
    if (!update) return;
    Gradients totals;
    for (const Variable& sum : sums) totals.emplace_back(sum.read_value());
    optimizer.apply_gradients(totals, model.variables());
    for (Variable& sum : sums) sum.assign(zeros(sum.shape(), kFloat64));
  };
  for (const Batch& batch : batches) {
    const bool update = ++seen % every == 0;
    if (strategy == nullptr) {
      step(batch, 0, 1, update);
    } else {
      strategy->run([&] {
        const ReplicaContext& replica = *get_replica_context();
        step(batch, replica.replica_id_in_sync_group(), replica.num_replicas_in_sync(), update);
      });
    }
  }
  std::vector<double> parameters;
  for (const Variable& variable : model.variables()) {
    for (const double x : variable.read_value().to_vector<double>()) parameters.push_back(x);
  }
  return parameters;
}

TEST(CorrectSums, HoldWhenGradientsAccumulateOverSteps) {
  const std::vector<Batch> batches = make_batches(24, kFloat64);
  const std::vector<double> alone = accumulate(nullptr, batches, 3);
  for (int replicas = 1; replicas <= 4; ++replicas) {
    const auto strategy = mirrored_strategy(replicas);
    const StrategyScope scope(*strategy);
    expect_close(accumulate(strategy.get(), batches, 3), alone, 0, 1e-9);
  }
}

}  // namespace
}  // namespace cohort
