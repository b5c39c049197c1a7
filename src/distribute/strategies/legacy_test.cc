#include "cohort/legacy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort::legacy {
namespace {

class Legacy : public ::testing::Test {
 protected:
  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
  data::Dataset dataset_ = data::range(8).batch(4);
};

TEST_F(Legacy, ContextsHaveTheirOldNames) {
  EXPECT_FALSE(has_distribution_strategy());
  EXPECT_TRUE(get_tower_context()->is_single_tower());
  EXPECT_EQ(get_cross_tower_context(), nullptr);
  const auto scope = strategy_.scope();
  EXPECT_EQ(&get_distribution_strategy(), &strategy_);
  EXPECT_EQ(get_cross_tower_context(), &strategy_);
  EXPECT_FALSE(get_tower_context().has_value());
  const PerDevice<int> ids = call_for_each_tower(strategy_, [&] {
    const TowerContext tower = *get_tower_context();
    EXPECT_EQ(&tower.distribution_strategy(), &strategy_);
    EXPECT_FALSE(tower.is_single_tower());
    const int sum = tower.merge_call(
        [](Strategy&, const PerDevice<int>& all) { return all[0] + all[1]; }, tower.tower_id());
    return 10 * sum + tower.tower_id();
  });
  EXPECT_EQ(unwrap(strategy_, ids), (std::vector<int>{10, 11}));
  EXPECT_EQ(group(strategy_, ids).size(), 0);
}

TEST_F(Legacy, IteratorsAreRunWith) {
  DistributedIterator plain = make_dataset_iterator(strategy_, dataset_);
  const auto sums = experimental_run(
      strategy_, [](Tensor x) { return sum(x).to<int64_t>(); }, plain);
  EXPECT_EQ(unwrap(strategy_, sums), (std::vector<int64_t>{1, 5}));
  DistributedIterator made = make_input_fn_iterator(
      strategy_, [](const InputContext&) { return data::range(8).batch(2); });
  EXPECT_EQ(experimental_run_v2(
                strategy_, [](Tensor x) { return x.size(); }, made.next())
                .value(),
            2);
  EXPECT_EQ(distribute_dataset(strategy_, [&] { return dataset_; }).cardinality(), 2);
  constexpr auto kPerReplica = InputReplicationMode::PerReplica;
  EXPECT_ERROR(Code::InvalidArgument, "one pipeline",
               make_dataset_iterator(strategy_, dataset_, kPerReplica));
  const auto function = [&](const InputContext&) { return dataset_; };
  EXPECT_ERROR(Code::InvalidArgument, "one pipeline",
               make_input_fn_iterator(strategy_, function, kPerReplica));
}

TEST_F(Legacy, StepsAreRunOnAnIterator) {
  DistributedIterator iterator = make_dataset_iterator(strategy_, dataset_);
  const MultiStepContext kept = experimental_run_steps_on_iterator(
      strategy_,
      [&](MultiStepContext& context, const DistributedElement& next) {
        strategy_.run(
            [&](Tensor x) { context.set_last_step_output("total", sum(x), ReduceOp::Sum); }, next);
        context.set_non_tensor_output("kind", std::string("range"));
      },
      iterator, 2, {{"unset", Tensor(7.f)}});
  EXPECT_EQ(kept.last_step_outputs().at("total").value().dense().to<int64_t>(), 4 + 5 + 6 + 7);
  EXPECT_EQ(kept.last_step_outputs().at("unset").value().dense().to<float>(), 7.f);
  EXPECT_EQ(std::any_cast<std::string>(kept.non_tensor_outputs().at("kind")), "range");
  MultiStepContext context(strategy_);
  EXPECT_ERROR(Code::InvalidArgument, "needs a ReduceOp",
               strategy_.run([&] { context.set_last_step_output("x", Tensor(1.f)); }));
}

TEST_F(Legacy, ReductionsAndUpdatesNameTheirStrategy) {
  const auto ones = strategy_.run([] { return Tensor({1.f}); });
  const DistributedValue sum = reduce(strategy_, VariableAggregation::Sum, ones, ones);
  EXPECT_EQ(sum[1].dense().to<float>(), 2.f);
  EXPECT_ERROR(Code::InvalidArgument, "None",
               reduce(strategy_, VariableAggregation::None, ones, ones));
  EXPECT_EQ(
      batch_reduce(strategy_, VariableAggregation::Mean, {{ones, ones}})[0][0].dense().to<float>(),
      1.f);
  EXPECT_EQ(broadcast(strategy_, Tensor({3.f})).size(), 2u);
  EXPECT_EQ(broadcast(strategy_, Tensor({3.f}), "CPU:1").size(), 1u);

  Variable variable = strategy_.create([] { return Variable(1.f); });
  update(strategy_, variable, [](Variable copy) { copy.assign(4.f); });
  EXPECT_EQ(read_var(strategy_, variable).to<float>(), 4.f);
  EXPECT_EQ(update_non_slot(strategy_, "CPU:1", [] { return Tensor({1.f}); }).size(), 1u);
  EXPECT_EQ(worker_devices(strategy_), parameter_devices(strategy_));
}

TEST_F(Legacy, TowerLocalVariablesAddUpWhenRead) {
  const auto scope = strategy_.scope();
  std::optional<Variable> count;
  {
    const auto local = tower_local_var_scope(VariableAggregation::Sum);
    count.emplace(0.f);
  }
  strategy_.run([&] { count->assign_add(1.f); });
  EXPECT_EQ(count->read_value().to<float>(), 2.f);
  const auto together = colocate_vars_with(strategy_, *count);
}

TEST_F(Legacy, AlgorithmsHaveTheirOldNames) {
  EXPECT_NE(all_reduce_cross_device_ops("hierarchical_copy", 2), nullptr);
  EXPECT_ERROR(Code::InvalidArgument, "hierarchical_copy", all_reduce_cross_device_ops("ring"));
  EXPECT_EQ(collective_hints(10, 2.0).bytes_per_pack, 10);
  EXPECT_EQ(collective_hints(0, 0.5).timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(collective_hints().timeout, std::nullopt);
  for (const double no_limit : {0.0, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(collective_hints(0, no_limit).timeout, std::chrono::nanoseconds::max());
  }
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_ERROR(Code::InvalidArgument, "timeout_seconds must be 0 (no limit) or positive",
                 collective_hints(0, bad));
  }
  const CollectiveCommunication same = CommunicationImplementation::Ring;
  EXPECT_EQ(same, parse_communication_implementation("ring"));
}

}  // namespace
}  // namespace cohort::legacy
