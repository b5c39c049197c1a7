// Optimizers under strategies.

#include <gtest/gtest.h>

#include "cohort/function.h"
#include "cohort/metrics.h"
#include "cohort/nn_layers.h"
#include "cohort/ops.h"
#include "cohort/optim.h"
#include "cohort/random.h"
#include "ops/op.h"
#include "support/expect_error.h"
#include "support/find_op.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

using internal::expect_error;

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

TEST(StrategyUpdate, SumsGradientsAndCountsOnce) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(3), central_strategy(3)};
  for (const auto& strategy : strategies) {
    const StrategyScope scope(*strategy);
    const Variable v(10.f);
    optim::Sgd optimizer({.learning_rate = 1});
    for (int step = 0; step < 2; ++step) {
      strategy->run([&] {
        const Tensor gradient = Tensor({1.f, 2.f, 3.f})[replica_id()];
        return optimizer.apply_gradients({gradient}, {v});
      });
    }
    for (const float copy : copy_values(v)) EXPECT_EQ(copy, -2);
    EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 2);
    for (const float copy : copy_values(optimizer.iterations())) EXPECT_EQ(copy, 2);
  }
}

// Three steps of two replicas, on a variable of several blocks and with numbers that do not add up
// exactly. All copies of the parameters, one after the other.
std::vector<float> after_three_steps(const MirroredOptions& options, DType dtype) {
  const auto strategy = mirrored_strategy(2, options);
  const StrategyScope scope(*strategy);
  const Variable v([&] { return fill({5000}, cast(Tensor(0.3f), dtype)); });
  optim::Adam optimizer({.learning_rate = 0.1});
  for (int step = 0; step < 3; ++step) {
    strategy->run([&] {
      const Tensor places = cast(range(5000), kFloat32);
      optimizer.apply_gradients({sin(places * (replica_id() + 0.7f) + step)}, {v});
    });
  }
  std::vector<float> values;
  for (const Variable& copy : internal::distributed(v)->copies()) {
    const std::vector<float> own = cast(copy.read_value(), kFloat32).to_vector<float>();
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

TEST(StrategyUpdate, HasTheSameBitsWithEveryReduction) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const std::vector<float> reduced_directly = after_three_steps({}, dtype);
    const std::vector<float> reduced_before =
        after_three_steps({.cross_device_ops = std::make_shared<ReductionToOneDevice>()}, dtype);
    EXPECT_EQ(reduced_directly, reduced_before) << to_string(dtype);
    EXPECT_EQ(std::vector(reduced_before.begin(), reduced_before.begin() + 5000),
              std::vector(reduced_before.begin() + 5000, reduced_before.end()));
  }
}

TEST(StrategyUpdate, LeavesTheGradientsToWhoHoldsThem) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  optim::Sgd optimizer({.learning_rate = 1});
  const auto kept = strategy->run([&] {
    const Tensor own(replica_id() + 1.f);
    optimizer.apply_gradients({own}, {v});
    return own;
  });
  EXPECT_EQ(kept[0].to<float>(), 1.f);
  EXPECT_EQ(kept[1].to<float>(), 2.f);
  EXPECT_EQ(copy_values(v), (std::vector<float>{-2, -2}));
}

TEST(StrategyUpdate, NamesReplicasThatCallSomethingElse) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  optim::Sgd optimizer({.learning_rate = 1});
  const auto train = [&] {
    if (replica_id() == 0) {
      optimizer.apply_gradients({Tensor(1.f)}, {v});
    } else {
      get_replica_context()->all_reduce(ReduceOp::Sum, Tensor(1.f));
    }
  };
  expect_error([&] { strategy->run(train); },
               "replica 0 calls all_reduce(Sum, float32 ()) for apply_gradients at "
               "strategy_update_test.cc",
               Code::FailedPrecondition);
}

TEST(StrategyUpdate, OfListsInAnotherOrderIsAnErrorInAllReplicas) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), mirrored_strategy(3),
                                                  central_strategy(3)};
  for (const auto& strategy : strategies) {
    const StrategyScope scope(*strategy);
    const Variable a(1.f);
    const Variable b(1.f);
    optim::Sgd optimizer({.learning_rate = 1});
    const auto step = [&] {
      const auto list = replica_id() == 1 ? std::vector{b, a} : std::vector{a, b};
      return optimizer.apply_gradients({Tensor(1.f) + 0.f, Tensor(10.f) + 0.f}, list);
    };
    const auto expect_refused = [&](const std::function<void()>& run, const std::string& message) {
      expect_error(run, message, Code::FailedPrecondition);
    };
    expect_refused([&] { strategy->run(step); }, "give all the same list in the same order");
    expect_refused([&] { function([&] { return strategy->run(step)[0]; })(); },
                   "give all the same list in the same order");
    expect_refused([&] { strategy->run(function(step)); }, "variables");
    for (const Variable& variable : {a, b}) {
      for (const float copy : copy_values(variable)) EXPECT_EQ(copy, 1);
    }
  }
}

TEST(StrategyUpdate, ReturnsTheNumberOfTheUpdateInEveryReplica) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  optim::Sgd optimizer({.learning_rate = 1});
  const auto steps = strategy->run(
      [&] { return optimizer.apply_gradients({Tensor(1.f) + 0.f}, {v}).to<int64_t>(); });
  EXPECT_EQ(steps[0], 1);
  EXPECT_EQ(steps[1], 1);
}

TEST(StrategyUpdate, MinimizesAFunctionOfTheReplica) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  optim::Sgd optimizer({.learning_rate = 0.5});
  strategy->run([&] {
    const float target = replica_id() == 0 ? 0.f : 4.f;
    optimizer.minimize([&] { return square(v - target); }, {v});
  });
  // Slopes 2 and -6.
  EXPECT_EQ(copy_values(v), (std::vector<float>{3, 3}));
}

TEST(StrategyUpdate, LimitsTheSumNotTheParts) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(0.f);
  optim::Sgd optimizer({.learning_rate = 1, .clipping = {.value = 3}});
  strategy->run([&] { optimizer.apply_gradients({Tensor({5.f, -4.f})[replica_id()]}, {v}); });
  EXPECT_EQ(copy_values(v), (std::vector<float>{-1, -1}));
}

TEST(StrategyUpdate, CountsAGradientThatSomeReplicasLackAsZeroThere) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(3), central_strategy(3)};
  for (const auto& strategy : strategies) {
    const StrategyScope scope(*strategy);
    const Variable dense(0.f);
    const Variable table({{0.f}, {0.f}, {0.f}});
    const Variable unused(7.f);
    optim::Sgd optimizer({.learning_rate = 1});
    strategy->run([&] {
      Gradients own(3);
      if (replica_id() == 1) own[0] = Tensor(5.f) + 0.f;
      if (replica_id() == 2) {
        own[1] = IndexedSlices{Tensor({{2.f}}), Tensor({int64_t{1}}), {3, 1}};
      }
      optimizer.apply_gradients(own, {dense, table, unused});
    });
    for (const float copy : copy_values(dense)) EXPECT_EQ(copy, -5);
    EXPECT_EQ(table.read_value().to_vector<float>(), (std::vector<float>{0, -2, 0}));
    EXPECT_EQ(unused.read_value().to<float>(), 7);
  }
}

TEST(StrategyUpdate, AddsDenseAndSparseGradientsOfOneVariable) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable table({{0.f}, {0.f}});
  optim::Sgd optimizer({.learning_rate = 1});
  strategy->run([&] {
    const Gradient own = replica_id() == 0
                             ? Gradient(Tensor({{1.f}, {1.f}}))
                             : IndexedSlices{Tensor({{2.f}}), Tensor({int64_t{1}}), {2, 1}};
    optimizer.apply_gradients({own}, {table});
  });
  EXPECT_EQ(table.read_value().to_vector<float>(), (std::vector<float>{-1, -3}));
}

TEST(StrategyUpdate, JoinsSparseGradients) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable table({{0.f}, {0.f}, {0.f}});
  optim::Adagrad optimizer({.learning_rate = 1});
  strategy->run([&] {
    const int64_t row = replica_id();
    const IndexedSlices own{Tensor({{1.f}, {1.f}}), Tensor({row, int64_t{2}}), {3, 1}};
    optimizer.apply_gradients({own}, {table});
  });
  // Row 2 counts once, with the sum 2.
  const auto square = optimizer.slot(table, "accumulator").read_value().to_vector<float>();
  EXPECT_EQ(square, (std::vector<float>{1, 1, 4}));
}

TEST(StrategyUpdate, WithoutAnyGradientIsAnErrorInAllReplicas) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(0.f);
  optim::Sgd optimizer;
  expect_error([&] { strategy->run([&] { optimizer.apply_gradients({Gradient()}, {v}); }); },
               "none of the 1 variables");
}

TEST(StrategyUpdate, KeepsSlotsWhereTheVariableIs) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(1.f, {.name = "v"});
  optim::Adam optimizer;
  strategy->run([&] { optimizer.apply_gradients({Tensor(1.f) + 0.f}, {v}); });
  const Variable mean = optimizer.slot(v, "mean");
  EXPECT_EQ(mean.name(), "v/mean");
  const auto& copies = internal::distributed(mean)->copies();
  EXPECT_EQ(copies[1].name(), "v/mean/replica_1");
  EXPECT_EQ(copies[1].device(), canonical_device("CPU:1"));
  EXPECT_TRUE(strategy->extended().variable_created_in_scope(mean));
  EXPECT_EQ(optimizer.variables().size(), 3);
  EXPECT_EQ(copy_values(mean)[0], copy_values(mean)[1]);
}

TEST(StrategyUpdate, OutsideOfReplicasIsRefused) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), central_strategy(2)};
  for (const auto& strategy : strategies) {
    const Variable v = strategy->create([] { return Variable(10.f); });
    optim::Sgd optimizer({.learning_rate = 1, .momentum = 0.5});
    const auto apply = [&] { optimizer.apply_gradients({Tensor(1.f)}, {v}); };
    const auto minimize = [&] { optimizer.minimize([&] { return v * v; }, {v}); };
    for (const std::function<void()>& update : {std::function<void()>(apply), {minimize}}) {
      expect_error(update, "strategy.run(", Code::FailedPrecondition);  // outside of every scope
      const StrategyScope scope(*strategy);
      expect_error(update, "in the cross-replica context of", Code::FailedPrecondition);
      expect_error(
          [&] {
            strategy->run([&] { get_replica_context()->merge_call([&](Strategy&) { update(); }); });
          },
          "strategy.run(", Code::FailedPrecondition);
    }
    EXPECT_EQ(v.read_value().to<float>(), 10);
    EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 0);
  }
}

TEST(StrategyUpdate, OfOneReplicaMayHappenOutsideOfIt) {
  const auto strategy = mirrored_strategy(1);
  const StrategyScope scope(*strategy);
  const Variable v(3.f);
  optim::Sgd optimizer({.learning_rate = 1});
  GradientTape tape;
  const Tensor y = v * v;
  optimizer.apply_gradients(tape.gradient(y, std::vector{v}), {v});
  EXPECT_EQ(v.read_value().to<float>(), -3);
}

TEST(StrategyUpdate, RefusesVariablesOfAnotherScope) {
  const auto strategy = mirrored_strategy(2);
  const Variable outside(1.f, {.name = "outside"});
  const StrategyScope scope(*strategy);
  const Variable inside(1.f);
  optim::Sgd optimizer;
  expect_error([&] { optimizer.apply_gradients({Tensor(1.f)}, {outside}); }, "'outside'");
  expect_error(
      [&] {
        strategy->run([&] {
          optimizer.apply_gradients({Tensor(1.f), Tensor(1.f)}, {inside, outside});
        });
      },
      "MirroredStrategy");
}

TEST(StrategyUpdate, TakesAnOptimizerThatWasMadeOutside) {
  const auto strategy = mirrored_strategy(2);
  optim::Sgd optimizer({.learning_rate = 1});
  const StrategyScope scope(*strategy);
  const Variable v(0.f);
  for (int i = 0; i < 3; ++i) {
    strategy->run([&] { optimizer.apply_gradients({Tensor(1.f) + 0.f}, {v}); });
  }
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 3);
  EXPECT_EQ(copy_values(v), (std::vector<float>{-6, -6}));
}

TEST(StrategyUpdate, OfOneDeviceIsOrdinary) {
  OneDeviceStrategy strategy("CPU:0");
  const StrategyScope scope(strategy);
  const Variable v(1.f);
  optim::Sgd optimizer({.learning_rate = 1, .momentum = 0.9});
  strategy.run([&] { optimizer.apply_gradients({Tensor(1.f)}, {v}); });
  EXPECT_EQ(v.read_value().to<float>(), 0);
  EXPECT_TRUE(strategy.extended().variable_created_in_scope(optimizer.slot(v, "momentum")));
}

// Variables are ordinary ones that two replicas share.
class SharingStrategy : public StrategyExtended {
 public:
  SharingStrategy() : devices_(resolve_devices("SharingStrategy", {"CPU:0", "CPU:1"})) {}
  std::string name() const override { return "SharingStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  std::vector<std::string> parameter_devices() const override { return {devices_[0]}; }
  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return next(request);
  }
  DistributedValue update_copies(const Variable& variable, const Change& change) override {
    return Gradient(change(variable, 0));
  }

 private:
  std::vector<std::string> devices_;
};

TEST(StrategyUpdate, OfAStrategyOfOnesOwnHappensOnce) {
  Strategy strategy(std::make_unique<SharingStrategy>());
  const StrategyScope scope(strategy);
  const Variable v(0.f);
  optim::Sgd optimizer({.learning_rate = 1, .momentum = 0.5});
  for (int i = 0; i < 2; ++i) {
    strategy.run([&] { optimizer.apply_gradients({Tensor({1.f, 2.f})[replica_id()]}, {v}); });
  }
  EXPECT_EQ(v.read_value().to<float>(), -7.5);
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 2);
}

TEST(LayersUnderStrategies, AverageBatchStatisticsWhenRead) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const nn::BatchNorm norm(1, {.momentum = 1});
  strategy->run([&] { norm(Tensor({{1.f}, {3.f}}) * static_cast<float>(replica_id() + 1)); });
  for (const auto& [name, variable] : norm.named_variables()) {
    if (name != "moving_mean") continue;
    EXPECT_EQ(variable.read_value().at<float>({0}), 3);
  }
}

// Steps of two replicas, the second of which has `examples[i]` in step i: both replicas' moving
// means, then the variances.
std::vector<float> moved_statistics(bool traced, Formula formula, std::vector<int64_t> examples) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const nn::BatchNorm norm(1, {.formula = formula, .momentum = 0.5});
  const auto plain = [&](Tensor x) { return norm(x); };
  const auto step = function(plain);
  for (const int64_t count : examples) {
    strategy->run([&] {
      const Tensor x = cast(range(replica_id() == 0 ? 2 : count), kFloat32) + 5.f;
      return traced ? step(reshape(x, {-1, 1})) : plain(reshape(x, {-1, 1}));
    });
  }
  std::vector<float> values = copy_values(norm.moving_mean());
  for (const float variance : copy_values(norm.moving_variance())) values.push_back(variance);
  return values;
}

TEST(LayersUnderStrategies, AnEmptyShareOfABatchLeavesItsReplicasStatistics) {
  for (const Formula formula : {Formula::Torch, Formula::TensorFlow}) {
    for (const bool traced : {false, true}) {
      SCOPED_TRACE(traced ? "traced" : "plain");
      const std::vector<float> moved = moved_statistics(traced, formula, {0});
      EXPECT_EQ(moved[1], 0);
      EXPECT_EQ(moved[3], 1);
      // After several sizes the trace leaves the size open.
      const std::vector<float> before = moved_statistics(traced, formula, {2, 3, 4, 5, 6, 7});
      const std::vector<float> after = moved_statistics(traced, formula, {2, 3, 4, 5, 6, 7, 0});
      EXPECT_EQ(after[1], before[1]);
      EXPECT_EQ(after[3], before[3]);
    }
  }
}

TEST(LayersUnderStrategies, DropDifferentElementsInEachReplicaReproducibly) {
  const auto strategy = mirrored_strategy(3);
  const auto draw = [&] {
    random::set_seed(5);
    std::vector<std::vector<float>> masks;
    for (int i = 0; i < 2; ++i) {
      const auto each =
          strategy->run([&] { return nn::dropout(ones({64}), {.rate = 0.5}).to_vector<float>(); });
      for (size_t r = 0; r < each.size(); ++r) {
        std::vector<float> mask;
        for (const auto& x : each[r]) mask.push_back(x);
        masks.push_back(mask);
      }
    }
    return masks;
  };
  const auto masks = draw();
  for (size_t i = 0; i < masks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(masks[i], masks[j]);
  }
  EXPECT_EQ(draw(), masks);
}

TEST(MetricsUnderStrategies, AreThoseOfAllTheData) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), central_strategy(2)};
  for (const auto& strategy : strategies) {
    const StrategyScope scope(*strategy);
    metrics::Mean mean;
    strategy->run([&] {
      mean.update(replica_id() == 0 ? Tensor({1.f, 2.f, 3.f}) : Tensor({10.f}));
    });
    EXPECT_EQ(mean.result().to<double>(), 4);
    mean.update(Tensor({9.f}));  // outside of replicas, inside the scope
    EXPECT_EQ(mean.result().to<double>(), 5);
    mean.reset();
    EXPECT_EQ(mean.result().to<double>(), 0);
  }
}

}  // namespace
}  // namespace cohort
