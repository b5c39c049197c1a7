// Traced functions work around a strategy's run(), and inside run().

#include <gtest/gtest.h>

#include <atomic>

#include "cohort/cohort.h"
#include "graph/tracing.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

class Traced : public ::testing::Test {
 protected:
  PerReplica<Tensor> numbers(float first) {
    return strategy_.distribute_values_from_function([first](ValueContext context) {
      return Tensor({first + static_cast<float>(context.replica_id_in_sync_group)});
    });
  }

  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
};

TEST_F(Traced, AroundRunPutsEveryReplicaIntoOneGraph) {
  int traced = 0;
  const auto step = function([&](const PerReplica<Tensor>& x) {
    ++traced;
    return strategy_.run([](Tensor own) { return own * 2.f + static_cast<float>(replica_id()); },
                         x);
  });
  for (const float first : {1.f, 5.f}) {
    const PerReplica<Tensor> results = step(numbers(first));
    EXPECT_EQ(results[0].to<float>(), 2.f * first);
    EXPECT_EQ(results[1].to<float>(), 2.f * (first + 1) + 1);
    EXPECT_EQ(DistributedValue(results).devices(), strategy_.extended().worker_devices());
  }
  EXPECT_EQ(traced, 1);
}

TEST_F(Traced, AroundRunReplicasMeet) {
  const auto step = function([&](const PerReplica<Tensor>& x) {
    return strategy_.run(
        [](Tensor own) {
          ReplicaContext& context = *get_replica_context();
          const Tensor total = context.all_reduce(ReduceOp::Sum, own);
          const Tensor merged = context.merge_call(
              [](Strategy& s, const PerReplica<Tensor>& all) {
                return s.reduce(ReduceOp::Mean, all);
              },
              total * static_cast<float>(replica_id() + 1));
          return std::pair(total, merged);
        },
        x);
  });
  for (int i = 0; i < 2; ++i) {
    const auto results = step(numbers(3.f));
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(results[r].first.to<float>(), 7.f);
      EXPECT_EQ(results[r].second.to<float>(), 10.5f);
    }
  }
}

TEST_F(Traced, AroundRunVariablesChange) {
  Variable total =
      strategy_.create([] { return Variable(0.f, {.aggregation = VariableAggregation::Sum}); });
  const auto step = function([&](const PerReplica<Tensor>& x) {
    strategy_.run([&](Tensor own) { total.assign_add(reshape(own, Shape{})); }, x);
  });
  step(numbers(1.f));
  step(numbers(1.f));
  EXPECT_EQ(total.read_value().to<float>(), 6.f);
  for (const Variable& copy : strategy_.local_results(total)) {
    EXPECT_EQ(copy.read_value().to<float>(), 6.f);
  }
}

TEST_F(Traced, AroundRunFailuresUnwind) {
  const auto step = function([&](Tensor x) {
    return strategy_.run(
        [](Tensor own) {
          if (replica_id() == 1) throw std::domain_error("traced");
          return get_replica_context()->all_reduce(ReduceOp::Sum, own);
        },
        x);
  });
  EXPECT_THROW(step(Tensor({1.f})), std::domain_error);
  EXPECT_FALSE(building_graph());
  EXPECT_EQ(strategy_.run([] { return building_graph(); }).value(), false);
  const auto unequal = function([&](Tensor x) {
    strategy_.run(
        [](Tensor own) {
          if (replica_id() == 0) get_replica_context()->all_reduce(ReduceOp::Sum, own);
        },
        x);
  });
  EXPECT_ERROR(Code::FailedPrecondition, "replicas 0 wait", unequal(Tensor({1.f})));
}

TEST_F(Traced, AroundRunAReplicaZeroThatFailsKeepsTheOthersFromStarting) {
  std::atomic<int> started{0};
  const auto step = function([&](Tensor) {
    strategy_.run([&] {
      ++started;
      if (replica_id() == 0) throw std::domain_error("first");
    });
  });
  EXPECT_THROW(step(Tensor({1.f})), std::domain_error);
  EXPECT_EQ(started, 1);
}

TEST_F(Traced, AroundRunSettingsThatOneReplicaUsesAreTheTraces) {
  internal::TracedSetting setting;
  int traced = 0;
  const auto step = function([&](const PerReplica<Tensor>& x) {
    ++traced;
    return strategy_.run(
        [&](Tensor own) {
          if (replica_id() == 1) setting.use();
          return own + 1.f;
        },
        x);
  });
  step(numbers(1.f));
  step(numbers(1.f));
  EXPECT_EQ(traced, 1);
  setting.changed();
  step(numbers(1.f));
  EXPECT_EQ(traced, 2);
}

TEST_F(Traced, AroundRunFunctionsInsideAreCalledOpByOp) {
  const auto inner =
      function([](Tensor own) { return get_replica_context()->all_reduce(ReduceOp::Sum, own); });
  const auto outer = function([&](const PerReplica<Tensor>& x) { return strategy_.run(inner, x); });
  EXPECT_EQ(outer(numbers(1.f))[1].to<float>(), 3.f);
}

TEST_F(Traced, InsideOfRunEachReplicaHasItsTrace) {
  const auto step =
      function([](Tensor own) { return own * 10.f + static_cast<float>(replica_id()); });
  for (const float first : {1.f, 5.f}) {
    const auto results = strategy_.run(step, numbers(first));
    EXPECT_EQ(results[0].to<float>(), 10.f * first);
    EXPECT_EQ(results[1].to<float>(), 10.f * (first + 1) + 1);
    EXPECT_EQ(DistributedValue(results).devices(), strategy_.extended().worker_devices());
  }
  EXPECT_EQ(step.num_traces(), 2u);
}

TEST_F(Traced, InsideOfRunReplicasMeetByReductions) {
  const auto step = function([](Tensor own) {
    ReplicaContext& context = *get_replica_context();
    return std::pair(context.all_reduce(ReduceOp::Mean, own), context.all_gather(own, 0));
  });
  for (const float first : {1.f, 5.f}) {
    const auto results = strategy_.run(step, numbers(first));
    EXPECT_EQ(results[1].first.to<float>(), first + 0.5f);
    EXPECT_EQ(results[0].second.to_vector<float>(), (std::vector<float>{first, first + 1}));
  }
  EXPECT_EQ(step.num_traces(), 2u);
}

// The sum of the replicas' values, by a merge.
Tensor merged(const Tensor& own) {
  return get_replica_context()->merge_call(
      [](Strategy& strategy, const PerReplica<Tensor>& all) {
        return strategy.reduce(ReduceOp::Sum, all);
      },
      own);
}

TEST_F(Traced, InsideOfRunFunctionsThatMergeRunAsTheyAre) {
  const auto inner = function([](Tensor own) { return merged(own) * 2.f; });
  const auto step = function([&](Tensor own) { return inner(own * 10.f) + own; });
  for (const float first : {1.f, 5.f, 7.f}) {
    const auto results = strategy_.run(step, numbers(first));
    EXPECT_EQ(results[0].to<float>(), 20.f * (2 * first + 1) + first);
    EXPECT_EQ(results[1].to<float>(), 20.f * (2 * first + 1) + first + 1);
  }
  EXPECT_EQ(step.num_traces(), 0u);
  EXPECT_ERROR(Code::FailedPrecondition, "merges replicas",
               strategy_.run([&] { return inner.serialize(Tensor({1.f})); }));
}

TEST_F(Traced, MergesInConditionalBodies) {
  const auto step = [](Tensor own) {
    const auto merge = [&] { return merged(own); };
    const auto keep = [&] { return own; };
    return cond(sum(own) > 0.f, merge, keep);
  };
  const auto around = function([&](const PerReplica<Tensor>& x) { return strategy_.run(step, x); });
  const auto inside = function(step);
  for (const float first : {1.f, -5.f}) {
    const float expected = first > 0 ? 2 * first + 1 : first;
    EXPECT_EQ(strategy_.run(step, numbers(first))[0].to<float>(), expected);
    EXPECT_EQ(around(numbers(first))[0].to<float>(), expected);
    EXPECT_EQ(strategy_.run(inside, numbers(first))[0].to<float>(), expected);
  }
}

TEST_F(Traced, InsideOfRunVariablesAreMadeOnce) {
  const auto step = function([](Tensor own) {
    const Variable made(2.f, {.name = "made"});
    return own * made;
  });
  EXPECT_EQ(strategy_.run(step, numbers(1.f))[1].to<float>(), 4.f);
}

TEST_F(Traced, StructuresOfOtherLengthsOrKeysAreTracedAnew) {
  const auto by_name = function([](const std::map<std::string, Tensor>& all) {
    return all.contains("rate") ? all.at("rate") * 2.f : all.begin()->second;
  });
  using Named = std::map<std::string, Tensor>;
  EXPECT_EQ(by_name(Named{{"rate", Tensor(3.f)}}).to<float>(), 6.f);
  EXPECT_EQ(by_name(Named{{"other", Tensor(3.f)}}).to<float>(), 3.f);
  EXPECT_EQ(by_name(Named{{"rate", Tensor(4.f)}}).to<float>(), 8.f);
  EXPECT_EQ(by_name.num_traces(), 2u);
  using Lists = std::pair<std::vector<Tensor>, std::vector<Tensor>>;
  const auto second = function([](const Lists& lists) { return lists.second.front(); });
  EXPECT_EQ(second(Lists({Tensor(1.f)}, {Tensor(2.f), Tensor(3.f)})).to<float>(), 2.f);
  EXPECT_EQ(second(Lists({Tensor(1.f), Tensor(2.f)}, {Tensor(3.f)})).to<float>(), 3.f);
}

TEST_F(Traced, ComponentsThatHappenToBeOneAreNotTracedAnew) {
  const auto step = function([&](const PerReplica<Tensor>& x) {
    return strategy_.run([](const Tensor& own) { return own * 2.f; }, x);
  });
  const Tensor one({4.f});
  EXPECT_EQ(step(strategy_.run([&] { return one; }))[1].to<float>(), 8.f);
  EXPECT_EQ(step(numbers(1.f))[1].to<float>(), 4.f);
  EXPECT_EQ(step(numbers(1.f))[0].to<float>(), 2.f);
  EXPECT_EQ(step.num_traces(), 1u);
}

TEST_F(Traced, NumbersAmongComponentsAreTracedAnewWhenTheyChange) {
  const auto step = function([&](const PerReplica<float>& x) {
    return strategy_.run([](float own) { return ones({1}) * own; }, x);
  });
  const auto from = [&](float first) {
    return strategy_.run([=] { return first + static_cast<float>(replica_id()); });
  };
  EXPECT_EQ(step(from(1.f))[1].to<float>(), 2.f);
  EXPECT_EQ(step(from(5.f))[1].to<float>(), 6.f);
  EXPECT_EQ(step(strategy_.run([] { return 7.f; }))[0].to<float>(), 7.f);
}

TEST_F(Traced, AResultThatAllReplicasShareIsOneValue) {
  const Tensor given({3.f});
  const auto share = [&](const Tensor& x) { return strategy_.run([&] { return x; }); };
  EXPECT_EQ(Tensor(share(given)).to<float>(), 3.f);
  EXPECT_EQ(Tensor(function(share)(given)).to<float>(), 3.f);
}

TEST_F(Traced, EachPlaceHasItsTraces) {
  const Variable variable = strategy_.create([] { return Variable(1.f); });
  strategy_.extended().update(
      variable, [](Variable copy, Tensor value) { copy.assign(value); },
      PerReplica<Tensor>({Tensor(1.f), Tensor(2.f)}));
  const auto read = function([&] { return variable.read_value(); });
  EXPECT_EQ(strategy_.run(read)[1].to<float>(), 2.f);
  EXPECT_EQ(strategy_.run(read)[0].to<float>(), 1.f);
  EXPECT_EQ(read().to<float>(), 1.f);
}

// One training step gives the same results when it is eager, traced around run(), and traced inside
// run().
TEST_F(Traced, TrainingGivesTheEagerResults) {
  const Tensor images = random::Generator(1).uniform({32, 6});
  const Tensor labels = random::Generator(2).randint({32}, 0, 3);
  enum class How { Eager, Around, Inside };
  const auto train = [&](How how) {
    const auto scope = strategy_.scope();
    random::set_seed(7);
    nn::Sequential model{nn::Dense(6, 8), nn::relu, nn::Dense(8, 3)};
    optim::Adam optimizer({.learning_rate = 0.01});
    const auto step = [&](Tensor image, Tensor label) {
      GradientTape tape;
      Tensor loss = nn::softmax_cross_entropy(model(image), label, {.global_batch_size = 32});
      optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
      return loss;
    };
    const auto half = [&](const Tensor& whole) {
      return strategy_.distribute_values_from_function([&](ValueContext context) {
        const int64_t first = 16 * context.replica_id_in_sync_group;
        return slice(whole, {{.begin = first, .end = first + 16}});
      });
    };
    const auto around = function([&](const PerReplica<Tensor>& x, const PerReplica<Tensor>& y) {
      return strategy_.reduce(ReduceOp::Sum, strategy_.run(step, x, y));
    });
    const auto inside = function(step);
    std::vector<float> losses;
    for (int i = 0; i < 5; ++i) {
      const auto x = half(images);
      const auto y = half(labels);
      const Tensor loss = how == How::Around ? around(x, y)
                          : how == How::Inside
                              ? strategy_.reduce(ReduceOp::Sum, strategy_.run(inside, x, y))
                              : strategy_.reduce(ReduceOp::Sum, strategy_.run(step, x, y));
      losses.push_back(loss.to<float>());
    }
    return losses;
  };
  const std::vector<float> expected = train(How::Eager);
  EXPECT_LT(expected.back(), expected.front());
  for (const How how : {How::Around, How::Inside}) {
    const std::vector<float> found = train(how);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-6 * expected[i])
          << "step " << i << (how == How::Around ? " around" : " inside");
    }
  }
}

// A learning rate is a constant of a trace.
TEST_F(Traced, StepsUseALearningRateThatWasSetAfterTheyWereTraced) {
  const auto scope = strategy_.scope();
  const Variable v(10.f);
  optim::Sgd optimizer({.learning_rate = 1.0});
  std::atomic<int> traced = 0;  // both replicas trace
  const auto update = [&] {
    ++traced;
    optimizer.apply_gradients({Gradient(Tensor(1.f))}, {v});
    return optimizer.learning_rate();
  };
  const auto inner = function(update);
  const auto inside = [&] { return strategy_.run(inner); };
  const auto around = function([&] { return strategy_.run(update); });
  const auto nested = function([&] { return strategy_.run(inner); });
  float expected = 10;
  for (const float rate : {1.f, 0.25f, 0.5f}) {
    optimizer.set_learning_rate(rate);
    traced = 0;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(strategy_.local_results(inside())[1].to<float>(), rate);
      EXPECT_EQ(strategy_.local_results(around())[1].to<float>(), rate);
      EXPECT_EQ(strategy_.local_results(nested())[1].to<float>(), rate);
      expected -= 3 * 2 * rate;
      EXPECT_EQ(v.read_value().to<float>(), expected);
    }
    EXPECT_LE(traced, 6);  // once for each form and replica, not in each step
  }
  EXPECT_EQ(around.num_traces(), 1u) << "traces with a rate of before are dropped";
}

}  // namespace
}  // namespace cohort
