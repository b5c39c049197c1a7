// What watches over the variables of several workers, and keeps them.

#include <gtest/gtest.h>

#include <limits>

#include "cohort/cohort.h"
#include "cohort/collective.h"
#include "ops/variable_cell.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using test::kTwoReplicas;
using test::on_workers;
using test::run_workers;

MultiWorkerOptions guarded(GuardAction non_finite) {
  return {.guards = {.divergence_interval = 1, .non_finite = non_finite}};
}

TEST(MultiWorkerGuards, NameTheReplicaOfAGradientThatIsNotFinite) {
  const auto step = [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable w(1.f, {.name = "w"});
    optim::Sgd optimizer({.learning_rate = 1.0});
    strategy.run([&] {
      const float bad = strategy.worker_id() == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.f;
      optimizer.apply_gradients({Tensor(bad)}, {w});
    });
    EXPECT_EQ(w.read_value().to<float>(), 1);
  };
  for (const Status& status : run_workers(2, step, guarded(GuardAction::Stop))) {
    EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
    EXPECT_NE(status.message.find("step 1: the gradient of variable 'w' is not finite in replica 1 "
                                  "(/job:worker/replica:0/task:1)"),
              std::string::npos)
        << status.message;
  }
  for (const Status& status : run_workers(2, step, guarded(GuardAction::Skip))) {
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST(MultiWorkerGuards, FindCopiesThatDiffer) {
  const auto statuses = run_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        Variable w({1.f, 2.f}, {.name = "w"});
        optim::Sgd optimizer({.learning_rate = 1.0});
        if (strategy.worker_id() == 1) {
          strategy.local_results(w)[0].assign(Tensor({1.f, 2.5f}));  // one copy alone
        }
        strategy.run([&] { optimizer.apply_gradients({Tensor({1.f, 1.f})}, {w}); });
      },
      guarded(GuardAction::Off));
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::DataLoss) << status.to_string();
    EXPECT_NE(status.message.find("after step 1: variable 'w' of replica 1 "
                                  "(/job:worker/replica:0/task:1)"),
              std::string::npos)
        << status.message;
  }
}

// Each worker would go on with a value of its own.
TEST(MultiWorkerGuards, FindValuesThatDifferOutsideOfReplicas) {
  const auto expect_refused = [](const std::string& name, const auto& write) {
    const auto statuses = run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      const Variable w({{1.f}, {2.f}}, {.name = "w"});
      write(w, static_cast<float>(strategy.worker_id()));
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code, Code::FailedPrecondition) << name << status.to_string();
      EXPECT_NE(status.message.find("the workers must write the same value"), std::string::npos)
          << name << status.message;
      EXPECT_NE(status.message.find("variable 'w'"), std::string::npos) << status.message;
    }
  };
  expect_refused("assign", [](Variable w, float id) { w.assign(ones({2, 1}) * id); });
  expect_refused("assign_add", [](Variable w, float id) { w.assign_add(id); });
  expect_refused("another call",
                 [](Variable w, float id) { id == 0 ? w.assign_add(1.f) : w.assign_sub(1.f); });
  expect_refused("rows", [](Variable w, float id) {
    w.scatter_add({Tensor({{1.f}}), Tensor({static_cast<int64_t>(id)}), {2, 1}});
  });
}

TEST(MultiWorkerGuards, FindValuesThatDifferInTracedWritesOutsideOfReplicas) {
  const auto expect_refused = [](const std::string& name, const auto& write) {
    const auto statuses = run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      const Variable w({{1.f}, {2.f}}, {.name = "w"});
      const auto traced = function([&](const Tensor& own) {
        write(w, own);
        return own;
      });
      traced(Tensor(3.f));
      traced(Tensor(static_cast<float>(strategy.worker_id())));
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code, Code::InvalidArgument) << name << status.to_string();
      EXPECT_NE(status.message.find("the workers must write the same value"), std::string::npos)
          << name << status.message;
      EXPECT_NE(status.message.find("variable 'w'"), std::string::npos) << status.message;
    }
  };
  expect_refused("assign", [](Variable w, const Tensor& own) { w.assign(ones({2, 1}) * own); });
  expect_refused("assign_add", [](Variable w, const Tensor& own) {
    w.assign_add(ones({2, 1}) * own);
  });
  expect_refused("rows", [](Variable w, const Tensor& own) {
    w.scatter_add({reshape(own, {1, 1}), Tensor({int64_t{1}}), {2, 1}});
  });
}

TEST(MultiWorkerGuards, LetAllWorkersWriteOneValueInTracedFunctions) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable w({1.f, 2.f});
    Variable even(false);
    const auto step = function([&](const Tensor& value) {
      w.assign(value);
      even.assign(value[0] > 0.f);
      w.scatter_add({Tensor({1.f}), Tensor({int64_t{1}}), {2}});
      return w.assign_add(1.f);
    });
    const float none = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(step(Tensor({3.f, 4.f})).to_vector<float>(), (std::vector<float>{4, 6}));
    EXPECT_TRUE(even.read_value().to<bool>());
    EXPECT_EQ(step(Tensor({none, 4.f})).to_vector<float>()[1], 6);
  });
}

TEST(MultiWorkerGuards, FindValuesThatDifferInWritesOfSums) {
  for (const auto aggregation : {VariableAggregation::Sum, VariableAggregation::Mean,
                                 VariableAggregation::OnlyFirstReplica}) {
    for (const Status& status : run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
           const auto scope = strategy.scope();
           Variable v(0.f, {.synchronization = VariableSynchronization::OnRead,
                            .aggregation = aggregation});
           v.assign(2.f);
           EXPECT_EQ(v.read_value().to<float>(), 2);
           v.assign(strategy.worker_id() == 0 ? 1.f : 3.f);
         })) {
      EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    }
  }
}

// As with one process.
TEST(MultiWorkerGuards, LetAMetricCountOnceWhatAllWorkersGiveItOutsideOfReplicas) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    metrics::Mean mean;
    mean.update(Tensor({1.f, 2.f}));
    strategy.run([&] { mean.update(Tensor(5.f)); });
    EXPECT_EQ(mean.result().to<float>(), 13.f / 4);
  });
  for (const Status& status : run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
         const auto scope = strategy.scope();
         metrics::Mean mean;
         mean.update(Tensor(static_cast<float>(strategy.worker_id())));
       })) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("inside run()"), std::string::npos) << status.message;
  }
}

// One worker knows that its copy may differ, the other one does not.
TEST(MultiWorkerGuards, LeaveVariablesAloneThatOneWorkerWroteForItself) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        Variable a(1.f, {.name = "a"});
        Variable b(2.f, {.name = "b"});
        Variable c(3.f, {.name = "c"});
        optim::Sgd optimizer({.learning_rate = 1.0});
        const auto update = [&] {
          strategy.run([&] {
            optimizer.apply_gradients({Tensor(1.f), Tensor(1.f), Tensor(1.f)}, {a, b, c});
          });
        };
        strategy.run([&] {
          if (strategy.worker_id() == 0) a.assign(5.f);
        });
        update();
        strategy.run([&] {
          if (strategy.worker_id() == 1) b.assign(6.f);
        });
        update();
      },
      guarded(GuardAction::Off));
}

TEST(MultiWorkerGuards, LetAllWorkersWriteOneValue) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable w({1.f, 2.f});
    w.assign(Tensor({3.f, 4.f}) * 2.f);
    w.assign_add(1.f);
    EXPECT_EQ(w.read_value().to_vector<float>(), (std::vector<float>{7, 9}));
  });
}

TEST(MultiWorkerGuards, RefuseAnUpdateOutsideOfReplicas) {
  for (const Status& status : run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
         const auto scope = strategy.scope();
         const Variable w(1.f);
         optim::Sgd optimizer({.learning_rate = 1.0});
         optimizer.minimize([&] { return w * (1.f + strategy.worker_id()); }, {w});
       })) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("strategy.run("), std::string::npos) << status.message;
  }
}

// As one that was started again does.
TEST(MultiWorkerCheckpoint, OneWorkerRestoresAlone) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    for (const auto aggregation : {VariableAggregation::Sum, VariableAggregation::Mean,
                                   VariableAggregation::OnlyFirstReplica}) {
      const Variable v(
          0.f, {.synchronization = VariableSynchronization::OnRead, .aggregation = aggregation});
      if (strategy.worker_id() == 1) internal::VariableAccess::impl(v)->restore(Tensor(4.f));
      strategy.communicator().barrier();
      const float copy = strategy.local_results(v)[0].read_value().to<float>();
      const float restored = aggregation == VariableAggregation::Sum ? 2 : 4;
      EXPECT_EQ(copy, strategy.worker_id() == 1 ? restored : 0);
    }
  });
}

// The chief's sum would be of its accuracy and the other worker's next loss.
TEST(MultiWorkerGuards, FindASumThatOnlyTheChiefMakes) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto loss = strategy.run([] { return Tensor(0.5f); });
    const auto accuracy = strategy.run([] { return Tensor(1.f); });
    for (int pass = 0; pass < 3; ++pass) {
      strategy.reduce(ReduceOp::Sum, loss);
      if (strategy.is_chief()) strategy.reduce(ReduceOp::Sum, accuracy);
    }
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("make the call at one place"), std::string::npos)
        << status.message;
    const size_t first = status.message.find(" for reduce at multi_worker_guards_test.cc:");
    EXPECT_NE(first, std::string::npos) << status.message;
    EXPECT_NE(status.message.find(" for reduce at multi_worker_guards_test.cc:", first + 1),
              std::string::npos)
        << status.message;
  }
}

TEST(MultiWorkerCheckpoint, TheChiefWritesAndAllRestore) {
  const TemporaryDirectory directory;
  on_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        Variable w(5.f);
        Variable seen(0.f, {.synchronization = VariableSynchronization::OnRead,
                            .aggregation = VariableAggregation::Sum});
        strategy.run([&] { seen.assign_add(1.f); });
        // Each worker names a directory of its own: only the chief's comes into being.
        const std::string own = directory.path() + "/" + std::to_string(strategy.worker_id());
        Checkpoint checkpoint({{"w", w}, {"seen", seen}});
        checkpoint.save(own + "/ckpt");
        strategy.communicator().barrier();
        EXPECT_TRUE(checkpoint_exists(directory.path() + "/0/ckpt-1"));
        EXPECT_FALSE(checkpoint_exists(directory.path() + "/1/ckpt-1"));
        w.assign(0.f);
        seen.assign(0.f);
        checkpoint.restore(directory.path() + "/0/ckpt-1").assert_consumed();
        EXPECT_EQ(w.read_value().to<float>(), 5);
        EXPECT_EQ(seen.read_value().to<float>(), 4);
        EXPECT_EQ(strategy.local_results(seen)[0].read_value().to<float>(), 1);
      },
      kTwoReplicas);
}

}  // namespace
}  // namespace cohort
