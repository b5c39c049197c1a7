// Programs whose workers part: the error names both sides, on all workers.

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "cohort/cohort.h"
#include "support/local_workers.h"

namespace cohort {
namespace {

using test::expect_on_all;
using test::kTwoReplicas;
using test::run_workers;

// Both calls reduce one float32: without a comparison of what they are for they would be added up.
TEST(MultiWorkerDivergence, NamesBothCalls) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto own = strategy.run([] { return Tensor(1.f); });
    if (strategy.worker_id() == 0) {
      strategy.reduce(ReduceOp::Sum, own);
    } else {
      strategy.run([] { return get_replica_context()->all_reduce(ReduceOp::Sum, Tensor(1.f)); });
    }
  });
  expect_on_all(statuses,
                {"/task:0) makes all_reduce(Sum)", "/task:1) makes all_reduce(Sum)",
                 " for reduce at ", " for all_reduce at ", "multi_worker_divergence_test.cc:"});
}

TEST(MultiWorkerDivergence, NamesBothVariablesWhereWorkersWriteDifferentOnes) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    std::vector<Variable> variables;
    for (const char* const name : {"a", "b"}) {
      variables.push_back(strategy.create([name] {
        return Variable(0.f, {.name = name, .aggregation = VariableAggregation::Sum});
      }));
    }
    Variable& own = variables[static_cast<size_t>(strategy.worker_id())];
    strategy.run([&] { own.assign_add(Tensor(1.f)); });
  });
  expect_on_all(statuses, {"assign_add of variable 'a'", "assign_add of variable 'b'"});
}

TEST(MultiWorkerDivergence, DoesNotReduceOneValuePerWorkerWithOnePerReplica) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto own = strategy.run([] { return Tensor(1.f); });
    strategy.worker_id() == 0 ? strategy.reduce(ReduceOp::Mean, own)
                              : strategy.reduce(ReduceOp::Mean, Tensor(1.f));
  });
  expect_on_all(statuses,
                {"for reduce by Mean at", "for reduce of one value per worker by Mean at"});
}

TEST(MultiWorkerDivergence, ExtendedDoesNotReduceOneValuePerWorkerWithOnePerReplica) {
  const auto statuses = run_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const PerReplica<Tensor> own = strategy.run([] { return Tensor(1.f); });
        const DistributedValue value =
            strategy.is_chief() ? DistributedValue(own) : DistributedValue(Tensor(1.f));
        strategy.extended().reduce_to(ReduceOp::Mean, value, "CPU:0");
      },
      kTwoReplicas);
  expect_on_all(statuses, {"of float32 () for reduce of one value per worker"});
}

// --- Calls that look alike between the workers, and mean different things

// What `body(is_chief)` does on two workers, of one replica each and of two.
void expect_divergence(const std::function<void(MultiWorkerMirroredStrategy&, bool)>& body,
                       std::initializer_list<const char*> parts) {
  for (const MultiWorkerOptions& options : {MultiWorkerOptions{}, kTwoReplicas}) {
    const auto statuses = run_workers(
        2, [&](MultiWorkerMirroredStrategy& strategy) { body(strategy, strategy.is_chief()); },
        options);
    expect_on_all(statuses, parts);
  }
}

TEST(MultiWorkerDivergence, DoesNotTakeASumForAMean) {
  expect_divergence(
      [](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        const auto own = strategy.run([] { return Tensor(1.f); });
        strategy.reduce(is_chief ? ReduceOp::Sum : ReduceOp::Mean, own);
      },
      {"for reduce at", "for reduce by Mean at"});
  expect_divergence(
      [](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        strategy.run([&] {
          const ReduceOp op = is_chief ? ReduceOp::Sum : ReduceOp::Mean;
          return get_replica_context()->all_reduce(op, Tensor(1.f));
        });
      },
      {"for all_reduce at", "for all_reduce by Mean at"});
}

TEST(MultiWorkerDivergence, DoesNotTakeATracedSumForAMean) {
  expect_divergence(
      [](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        const ReduceOp op = is_chief ? ReduceOp::Sum : ReduceOp::Mean;
        const auto step = function([&](Tensor x) {
          return strategy.reduce(op, strategy.run([](Tensor y) { return y * 2.f; }, x));
        });
        step(Tensor(1.f));
      },
      {"by Mean"});
}

TEST(MultiWorkerDivergence, DoesNotAddRowsToColumns) {
  expect_divergence(
      [](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        const auto own = strategy.run([] { return ones({2, 2}); });
        strategy.reduce(ReduceOp::Sum, own, is_chief ? 0 : 1);
      },
      {"by Sum along axes [0]", "by Sum along axes [1]"});
  expect_divergence(
      [](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        const auto own = strategy.run([] { return ones({2, 2}); });
        strategy.gather(own, is_chief ? 0 : 1);
      },
      {"gather along axis 0", "gather along axis 1"});
}

TEST(MultiWorkerDivergence, DoesNotAddValuesOfDifferentKeys) {
  using Map = std::map<std::string, Tensor>;
  const auto values = [](bool is_chief) {
    return Map{{is_chief ? "a" : "b", Tensor(1.f)}, {"c", Tensor(2.f)}};
  };
  expect_divergence(
      [&](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        strategy.reduce(ReduceOp::Sum, strategy.run([&] { return values(is_chief); }));
      },
      {"reduce of {a, c}", "reduce of {b, c}"});
  expect_divergence(
      [&](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        strategy.run(
            [&] { return get_replica_context()->all_reduce(ReduceOp::Sum, values(is_chief)); });
      },
      {"all_reduce of {a, c}", "all_reduce of {b, c}"});
}

TEST(MultiWorkerDivergence, NamesBothLengthsOfLists) {
  expect_divergence(
      [](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
        const auto own =
            strategy.run([&] { return std::vector<Tensor>(is_chief ? 1 : 2, Tensor(1.f)); });
        strategy.reduce(ReduceOp::Sum, own);
      },
      {"reduce of [1]", "reduce of [2]"});
}

TEST(MultiWorkerDivergence, ComparesTheKindsOfNewVariables) {
  for (const bool aggregation : {true, false}) {
    const auto statuses = run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      VariableOptions options{.name = "v"};
      if (strategy.is_chief() && aggregation) options.aggregation = VariableAggregation::Mean;
      if (strategy.is_chief() && !aggregation) {
        options.synchronization = VariableSynchronization::OnWrite;
      }
      const Variable v(0.f, options);
    });
    expect_on_all(statuses, {"variable 'v' float32 ()", aggregation ? "Mean" : "OnWrite"});
  }
}

TEST(MultiWorkerDivergence, ComparesTheSettingsOfOptimizers) {
  for (const bool traced : {false, true}) {
    expect_divergence(
        [&](MultiWorkerMirroredStrategy& strategy, bool is_chief) {
          const auto scope = strategy.scope();
          Variable w(1.f, {.name = "w"});
          optim::Sgd optimizer({.learning_rate = 0.5});
          const auto replica_step = [&] {
            GradientTape tape;
            const std::vector<Variable> all{w};
            optimizer.apply_gradients(tape.gradient(w * w, all), all);
          };
          const auto traced_step = function([&] { strategy.run(replica_step); });
          const auto step = [&] {
            if (traced) {
              traced_step();
            } else {
              strategy.run(replica_step);
            }
          };
          step();
          if (is_chief) optimizer.set_learning_rate(0.25);
          step();
        },
        {"learning rate 0.25", "learning rate 0.5"});
  }
}

TEST(MultiWorkerDivergence, TellsWhyTheStepOfAnotherFailed) {
  std::barrier<> ended(2);
  const auto statuses =
      run_workers(2,
                  [&](MultiWorkerMirroredStrategy& strategy) {
                    const Status status = capture_status([&] {
                      strategy.run([&] {
                        if (!strategy.is_chief()) throw std::runtime_error("no such image");
                        return get_replica_context()->all_reduce(ReduceOp::Sum, Tensor(1.f));
                      });
                    });
                    ended.arrive_and_wait();
                    throw_if_error(status);
                  },
                  {.communication = {.timeout = std::chrono::seconds(30)}});
  EXPECT_TRUE(statuses[0].message.starts_with(
      "[Collective] rank 1 (/job:worker/replica:0/task:1) failed instead of making call "))
      << statuses[0];
  EXPECT_NE(statuses[0].message.find(": no such image; rank 0 "), std::string::npos) << statuses[0];
}

// For example a worker that leaves the loop early.
TEST(MultiWorkerDivergence, SaysWhichCallAWorkerThatHasEndedDoesNotMake) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    for (int step = 0; step < 3; ++step) {
      if (step == 2 && !strategy.is_chief()) return;
      strategy.reduce(ReduceOp::Sum, strategy.run([] { return Tensor(1.f); }));
    }
  });
  EXPECT_EQ(statuses[0].code, Code::Unavailable) << statuses[0];
  for (const char* const part :
       {"rank 1 (/job:worker/replica:0/task:1) has left the group",
        "rank 0 (/job:worker/replica:0/task:0) makes all_reduce(Sum) of float32 () for reduce at "
        "multi_worker_divergence_test.cc:",
        "all workers must make this call"}) {
    EXPECT_NE(statuses[0].message.find(part), std::string::npos) << part << " in " << statuses[0];
  }
}

TEST(MultiWorker, ReducesTheExtremesOfConstantsInATracedFunction) {
  test::on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto largest = function([&] {
      return strategy.reduce(ReduceOp::Max, strategy.run([] { return Tensor({1.f, 3.f}); }), 0);
    });
    EXPECT_EQ(largest().to<float>(), 3.f);
  });
}

// --- Calls that one worker cannot make, while the other one makes its own

// Worker 0 stays until worker 1 has heard of it.
std::vector<Status> run_with_refusal_on_first(
    const std::function<void(MultiWorkerMirroredStrategy&)>& body) {
  std::barrier<> ended(2);
  return run_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const Status status = capture_status([&] { body(strategy); });
        ended.arrive_and_wait();
        throw_if_error(status);
      },
      {.communication = {.timeout = std::chrono::seconds(30)}, .devices = {"CPU:0", "CPU:1"}});
}

void expect_heard(const std::vector<Status>& statuses, const char* why) {
  expect_on_all({statuses[1]}, {"failed instead of making call", why, "waits for it in"});
}

// Shapes (2) and (3) on worker 0, (2) and (2) on worker 1.
Tensor uneven_on_first() {
  return zeros({get_replica_context()->replica_id_in_sync_group() == 1 ? 3 : 2});
}

TEST(MultiWorkerDivergence, HearsThatTheReplicasOfAnotherCannotBeReduced) {
  const auto statuses = run_with_refusal_on_first([](MultiWorkerMirroredStrategy& strategy) {
    strategy.run(
        [] { return get_replica_context()->all_reduce(ReduceOp::Sum, uneven_on_first()); });
  });
  EXPECT_EQ(statuses[0].code, Code::InvalidArgument) << statuses[0].to_string();
  expect_heard(statuses, "(3,)");
}

TEST(MultiWorkerDivergence, HearsThatTheValuesOfAnotherCannotBeReduced) {
  const auto statuses = run_with_refusal_on_first([](MultiWorkerMirroredStrategy& strategy) {
    const auto own = strategy.run(uneven_on_first);
    strategy.reduce(ReduceOp::Sum, own);
  });
  EXPECT_EQ(statuses[0].code, Code::InvalidArgument) << statuses[0].to_string();
  expect_heard(statuses, "(3,)");
}

TEST(MultiWorkerDivergence, HearsThatTheReplicasOfAnotherMakeDifferentCalls) {
  const auto statuses = run_with_refusal_on_first([](MultiWorkerMirroredStrategy& strategy) {
    strategy.run([] {
      ReplicaContext& context = *get_replica_context();
      if (context.replica_id_in_sync_group() != 1) {
        context.all_reduce(ReduceOp::Sum, Tensor(1.f));
      } else {
        context.all_gather(Tensor({1.f}), 0);
      }
    });
  });
  EXPECT_EQ(statuses[0].code, Code::FailedPrecondition) << statuses[0].to_string();
  expect_heard(statuses, "replica 0 calls all_reduce");
}

TEST(MultiWorkerDivergence, HearsThatTheReplicasOfAnotherWriteDifferentVariables) {
  const auto statuses = run_with_refusal_on_first([](MultiWorkerMirroredStrategy& strategy) {
    std::vector<Variable> variables;
    for (const char* const name : {"a", "b"}) {
      variables.push_back(strategy.create([name] {
        return Variable(0.f, {.name = name, .aggregation = VariableAggregation::Sum});
      }));
    }
    strategy.run([&] {
      const bool other = get_replica_context()->replica_id_in_sync_group() == 1;
      variables[other ? 1 : 0].assign_add(Tensor(1.f));
    });
  });
  EXPECT_EQ(statuses[0].code, Code::FailedPrecondition) << statuses[0].to_string();
  expect_heard(statuses, "while replica 1 calls assign_add of variable 'b'");
}

// The other thread's next step could be taken for the one that failed.
TEST(MultiWorkerDivergence, ARunThatFailsBesideAnotherOneEndsTheGroup) {
  std::promise<void> failed;
  const auto statuses = run_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    Variable v =
        strategy.create([] { return Variable({0.f}, {.aggregation = VariableAggregation::Sum}); });
    const IndexedSlices row{Tensor({1.f}), Tensor({int64_t{0}}), Shape{1}};
    const auto step = [&] { strategy.run([&] { v.scatter_add(row); }); };
    if (!strategy.is_chief()) {
      failed.get_future().wait();
      return step();
    }
    std::vector<Status> both(2);
    std::vector<std::jthread> threads;
    std::once_flag first;
    for (Status& status : both) {
      threads.emplace_back([&] {
        status = capture_status(step);
        std::call_once(first, [&] { failed.set_value(); });
      });
    }
    threads.clear();
    for (const Status& status : both) throw_if_error(status);
  });
  expect_on_all(statuses, {"two runs of one strategy write variables at the same time"});
}

}  // namespace
}  // namespace cohort
