// P15: a strategy of one's own, made of nothing but the public interface.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

// Each replica trains on its own; every so often the copies become their mean.
class AveragingExtended : public StrategyExtended {
 public:
  explicit AveragingExtended(const std::vector<std::string>& devices)
      : devices_(resolve_devices("AveragingStrategy", devices)) {}

  std::string name() const override { return "AveragingStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  StrategyTraits traits() const override {
    return {.guards = {.divergence_interval = std::nullopt}};
  }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    variables_.push_back(StrategyExtended::create_variable(next, request));
    return variables_.back();
  }
  // Gradients stay where they are.
  std::vector<Gradient> replica_all_reduce(ReplicaContext&, const ReplicaReduction& own) override {
    return own.values;
  }

  void average() {
    for (const Variable& variable : variables_) {
      if (!is_floating(variable.dtype())) continue;
      std::vector<Gradient> values;
      for (const Variable& copy : strategy().local_results(variable)) {
        values.emplace_back(copy.read_value());
      }
      const DistributedValue mean =
          reduce_to(ReduceOp::Mean, {DistributedValue::Kind::PerReplica, values}, variable, {});
      update(
          variable, [](Variable copy, Tensor value) { copy.assign(value); }, mean);
    }
  }

 private:
  const std::vector<std::string> devices_;
  std::vector<Variable> variables_;
};

class OwnStrategy : public ::testing::Test {
 protected:
  AveragingExtended& extended() { return static_cast<AveragingExtended&>(strategy_.extended()); }
  std::vector<float> copies(const Variable& variable) {
    std::vector<float> values;
    for (const Variable& copy : strategy_.local_results(variable)) {
      values.push_back(copy.read_value().to<float>());
    }
    return values;
  }

  Strategy strategy_{
      std::make_unique<AveragingExtended>(std::vector<std::string>{"CPU:0", "CPU:1"})};
};

TEST_F(OwnStrategy, RunsReducesAndGathers) {
  const auto scope = strategy_.scope();
  const auto ids =
      strategy_.run([] { return get_replica_context()->replica_id_in_sync_group() + 1; });
  EXPECT_EQ(strategy_.reduce(ReduceOp::Sum, ids).to<int>(), 3);
  const auto rows = strategy_.run([] { return Tensor({1.f}); });
  EXPECT_EQ(strategy_.gather(rows, 0).shape(), Shape{2});
  EXPECT_EQ(strategy_.num_replicas_in_sync(), 2);
  EXPECT_ERROR(Code::Unimplemented, "clone()", strategy_.deep_copy());
}

// One of two workers. It counts its reductions, in which the other worker would take part.
class TwoWorkersExtended : public StrategyExtended, public CrossWorkerInput {
 public:
  TwoWorkersExtended() : devices_(resolve_devices("TwoWorkersStrategy", {"CPU:0", "CPU:1"})) {}

  std::string name() const override { return "TwoWorkersStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  InputContext input_context() const override { return InputContext(2, 0, 4); }
  std::vector<DistributedValue> batch_reduce_to(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override {
    ++reductions;
    return StrategyExtended::batch_reduce_to(op, requests, options);
  }

  int reductions = 0;

 protected:
  CrossDeviceOps& cross_device_ops() const override { return direct_; }

 private:
  const std::vector<std::string> devices_;
  mutable DirectAllReduce direct_;
};

// The quick all-reduce between threads would leave the other worker's values out.
TEST(OwnStrategyOfTwoWorkers, ReducesByItsOwnFunction) {
  Strategy strategy(std::make_unique<TwoWorkersExtended>());
  strategy.run([] { return get_replica_context()->all_reduce(ReduceOp::Sum, Tensor({1.f, 2.f})); });
  EXPECT_EQ(static_cast<TwoWorkersExtended&>(strategy.extended()).reductions, 1);
}

TEST_F(OwnStrategy, DistributesDatasets) {
  int64_t total = 0;
  for (const auto& batch : strategy_.distribute_dataset(data::range(8).batch(4))) {
    total += strategy_.reduce(ReduceOp::Sum, batch, 0).to<int64_t>();
  }
  EXPECT_EQ(total, 28);
}

TEST_F(OwnStrategy, TrainsCopiesApartUntilTheyAreAveraged) {
  const auto scope = strategy_.scope();
  Variable weight(1.f);
  optim::Sgd optimizer({.learning_rate = 1.0});
  const auto step = [&] {
    GradientTape tape;
    const Tensor loss =
        weight * static_cast<float>(get_replica_context()->replica_id_in_sync_group() + 1);
    optimizer.apply_gradients(tape.gradient(loss, std::vector<Variable>{weight}), {weight});
  };
  strategy_.run(step);
  EXPECT_EQ(copies(weight), (std::vector<float>{0.f, -1.f}));
  strategy_.run(step);
  EXPECT_EQ(copies(weight), (std::vector<float>{-1.f, -3.f}));
  extended().average();
  EXPECT_EQ(copies(weight), (std::vector<float>{-2.f, -2.f}));
}

TEST_F(OwnStrategy, HasTheGuardsOfTheOthers) {
  MirroredStrategy other({"CPU:0", "CPU:1"});
  const auto scope = other.scope();
  EXPECT_ERROR(Code::FailedPrecondition, "do not mix", strategy_.run([] {}));
}

TEST(StrategyOfNothing, IsRefused) {
  EXPECT_ERROR(Code::InvalidArgument, "nullptr", Strategy(nullptr));
}

}  // namespace
}  // namespace cohort
