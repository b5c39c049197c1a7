// Whole training programs on several workers: the same results as on one, whatever the input.

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using test::on_workers;
using test::run_workers;

const MultiWorkerOptions kTwoReplicas{.devices = {"CPU:0", "CPU:1"}};

std::vector<float> floats(const Tensor& value) { return value.to_vector<float>(); }

data::Dataset with_policy(const data::Dataset& dataset, AutoShardPolicy policy) {
  return dataset.options({.auto_shard_policy = policy});
}

// What a worker's replicas get, step by step.
std::vector<std::vector<std::vector<int64_t>>> steps_of(Strategy& strategy,
                                                        const data::Dataset& dataset) {
  std::vector<std::vector<std::vector<int64_t>>> steps;
  for (const auto& step : strategy.distribute_dataset(dataset)) {
    auto& replicas = steps.emplace_back();
    for (size_t r = 0; r < step.size(); ++r) {
      replicas.push_back(step[r].tensor().to_vector<int64_t>());
    }
  }
  return steps;
}

using Steps = std::vector<std::vector<std::vector<int64_t>>>;

TEST(MultiWorkerInput, DataShardingDealsTheBatchesOut) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto steps =
            steps_of(strategy, with_policy(data::range(24).batch(12), AutoShardPolicy::Data));
        ASSERT_EQ(steps.size(), 2u);
        EXPECT_EQ(steps[0], strategy.worker_id() == 0
                                ? (Steps::value_type{{0, 1, 2}, {6, 7, 8}})
                                : (Steps::value_type{{3, 4, 5}, {9, 10, 11}}));
      },
      kTwoReplicas);
}

TEST(MultiWorkerInput, WithoutShardingAllSeeEverything) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto steps =
        steps_of(strategy, with_policy(data::range(8).batch(4), AutoShardPolicy::Off));
    EXPECT_EQ(steps, (Steps{{{0, 1}}, {{2, 3}}, {{4, 5}}, {{6, 7}}}));
  });
}

TEST(MultiWorkerInput, FilesAreDividedAndUnequalEndsAreAgreedOn) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, int count, int first) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += std::to_string(first + i) + "\n";
    return folder.write(name, lines);
  };
  const std::vector<std::string> files{write("a", 9, 0), write("b", 9, 100)};
  on_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto dataset = with_policy(data::text_lines(files).batch(6), AutoShardPolicy::File);
        std::vector<std::vector<int64_t>> counts;
        std::vector<int64_t> totals;
        for (const auto& step : strategy.distribute_dataset(dataset)) {
          counts.push_back(step.sample_counts());
          totals.push_back(step.global_sample_count());
        }
        EXPECT_EQ(totals, (std::vector<int64_t>{6, 6, 5, 1}));
        EXPECT_EQ(counts,
                  strategy.worker_id() == 0
                      ? (std::vector<std::vector<int64_t>>{{2, 2}, {1, 1}, {2, 1}, {0, 0}})
                      : (std::vector<std::vector<int64_t>>{{1, 1}, {2, 2}, {1, 1}, {1, 0}}));
      },
      kTwoReplicas);
}

// The mean over all samples, for every number of them: nobody waits for ever, nobody counts twice.
TEST(MultiWorkerInput, MeansAreRightForEverySplit) {
  for (int workers = 2; workers <= 4; ++workers) {
    on_workers(workers, [](MultiWorkerMirroredStrategy& strategy) {
      for (int64_t samples = 1; samples <= 17; ++samples) {
        const auto dataset =
            with_policy(data::from_tensor_slices(cast(range(samples), kFloat32)).batch(5),
                        AutoShardPolicy::Data);
        double sum_of_all = 0;
        double count = 0;
        for (const auto& step : strategy.distribute_dataset(dataset)) {
          const auto parts = strategy.run([](const Tensor& x) { return sum(x); }, step);
          sum_of_all += strategy.reduce(ReduceOp::Sum, parts).to<double>();
          count += static_cast<double>(step.global_sample_count());
        }
        EXPECT_EQ(count, static_cast<double>(samples));
        EXPECT_DOUBLE_EQ(sum_of_all / count, static_cast<double>(samples - 1) / 2) << samples;
      }
    });
  }
}

TEST(MultiWorkerInput, FunctionsKnowTheirWorker) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto dist =
            strategy.distribute_datasets_from_function([&](const InputContext& context) {
              EXPECT_EQ(context.num_input_pipelines(), 2);
              EXPECT_EQ(context.input_pipeline_id(), strategy.worker_id());
              EXPECT_EQ(context.num_replicas_in_sync(), 4);
              EXPECT_EQ(context.get_per_replica_batch_size(8), 2);
              return data::range(8).shard(2, context.input_pipeline_id()).batch(2);
            });
        int64_t steps = 0;
        for (const auto& step : dist) steps += step.global_sample_count() == 8 ? 1 : 0;
        EXPECT_EQ(steps, 1);
      },
      kTwoReplicas);
}

TEST(MultiWorkerInput, AFailedPipelineEndsTheStepOnAllWorkers) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const int own = strategy.worker_id();
    const auto dataset = strategy.distribute_datasets_from_function([&](const InputContext&) {
      return data::range(4).map([own](const Tensor& x) -> Tensor {
        if (own == 1 && x.to<int64_t>() == 2) throw Error(Code::DataLoss, "a bad sample");
        return x;
      });
    });
    for (const auto& step : dataset) (void)step;
  });
  EXPECT_EQ(statuses[0].code, Code::Aborted) << statuses[0].to_string();
  EXPECT_EQ(statuses[1].code, Code::DataLoss) << statuses[1].to_string();
}

// --- Training

struct Result {
  std::vector<float> losses;
  std::vector<std::vector<float>> variables;
};

// Some steps of a small network on the strategy.
Result train(Strategy& strategy, const std::function<std::unique_ptr<optim::Optimizer>()>& make) {
  const auto scope = strategy.scope();
  random::set_seed(3);
  const Tensor inputs = random::normal({44, 3});
  const Tensor targets = matmul(inputs, Tensor({{1.f}, {-2.f}, {0.5f}}));
  const auto batches =
      with_policy(data::from_tensor_slices(inputs, targets).batch(8), AutoShardPolicy::Data);
  nn::Sequential model{nn::Dense(3, 5), nn::tanh, nn::Dense(5, 1)};
  const auto optimizer = make();
  Result result;
  for (const auto& batch : strategy.distribute_dataset(batches)) {
    const auto losses = strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          GradientTape tape;
          const Tensor loss = sum(square(model(x) - y)) / 8.f;
          optimizer->apply_gradients(tape.gradient(loss, model.variables()), model.variables());
          return loss;
        },
        batch);
    result.losses.push_back(strategy.reduce(ReduceOp::Sum, losses).to<float>());
  }
  for (const Variable& variable : model.variables()) {
    result.variables.push_back(floats(variable.read_value()));
  }
  return result;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 2e-6 * std::max(1.f, std::abs(b[i])));
}

TEST(MultiWorkerTraining, EqualsOneReplica) {
  const std::vector<std::function<std::unique_ptr<optim::Optimizer>()>> optimizers{
      [] { return std::make_unique<optim::Sgd>(optim::SgdOptions{.learning_rate = 0.1}); },
      [] { return std::make_unique<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01}); },
      [] {
        return std::make_unique<optim::Sgd>(
            optim::SgdOptions{.learning_rate = 0.1, .clipping = {.global_norm = 0.5}});
      }};
  for (const auto& make : optimizers) {
    OneDeviceStrategy one("CPU:0");
    const Result expected = train(one, make);
    for (const MultiWorkerOptions& options : {MultiWorkerOptions{}, kTwoReplicas}) {
      on_workers(
          2,
          [&](MultiWorkerMirroredStrategy& strategy) {
            const Result found = train(strategy, make);
            expect_near(found.losses, expected.losses);
            for (size_t i = 0; i < expected.variables.size(); ++i) {
              expect_near(found.variables[i], expected.variables[i]);
            }
          },
          options);
    }
  }
}

class MultiWorkerOverlap : public testing::TestWithParam<int> {
 protected:
  MultiWorkerOptions options(bool overlap) const {
    MultiWorkerOptions options;
    options.communication.bytes_per_pack = 1;
    for (int i = 0; i < GetParam(); ++i) options.devices.push_back("CPU:" + std::to_string(i));
    options.overlap = overlap;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Replicas, MultiWorkerOverlap, testing::Values(1, 2));

// Packs of one gradient each, reduced as soon as that is final.
TEST_P(MultiWorkerOverlap, ChangesNothing) {
  const auto make = [] {
    return std::make_unique<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01});
  };
  std::vector<Result> results;
  for (const bool overlap : {false, true}) {
    const ClusterSpec cluster = test::free_workers(2);
    Result first;
    on_workers(
        2,
        [&](MultiWorkerMirroredStrategy& strategy) {
          const Result found = train(strategy, make);
          if (strategy.is_chief()) first = found;
        },
        options(overlap));
    results.push_back(first);
  }
  EXPECT_EQ(results[0].losses, results[1].losses);  // bit for bit
  EXPECT_EQ(results[0].variables, results[1].variables);
}

// One replica applies something else than its tape gave; all notice, and the sums are right.
TEST_P(MultiWorkerOverlap, NoticesGradientsThatWereChanged) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto n = static_cast<float>(strategy.num_replicas_in_sync());
        const auto scope = strategy.scope();
        Variable a(0.f);
        Variable b(0.f);
        optim::Sgd optimizer({.learning_rate = 1.0});
        float expected = 0;
        for (int step = 0; step < 6; ++step) {
          strategy.run([&] {
            const int last = strategy.num_replicas_in_sync() - 1;
            const bool changes =
                step == 3 && get_replica_context()->replica_id_in_sync_group() == last;
            GradientTape tape;
            const Tensor loss = a * 2.f + b * 3.f;
            Gradients gradients = tape.gradient(loss, std::vector{a, b});
            if (changes) gradients[0] = gradients[0].dense() * 10.f;
            optimizer.apply_gradients(gradients, {a, b});
          });
          expected -= 2 * n + (step == 3 ? 18.f : 0.f);
          EXPECT_EQ(a.read_value().to<float>(), expected) << step;
          EXPECT_EQ(b.read_value().to<float>(), -3.f * n * static_cast<float>(step + 1));
        }
      },
      options(true));
}

// Gradients that are computed and never applied do no harm.
TEST_P(MultiWorkerOverlap, SurvivesGradientsThatNobodyApplies) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        Variable a(0.f);
        Variable b(0.f);
        optim::Sgd optimizer({.learning_rate = 1.0});
        for (int step = 0; step < 8; ++step) {
          strategy.run([&] {
            GradientTape tape;
            const Tensor loss = a * 2.f + b * 3.f;
            const Gradients gradients = tape.gradient(loss, std::vector{a, b});
            if (step % 2 == 1) optimizer.apply_gradients(gradients, {a, b});
          });
        }
        const auto n = static_cast<float>(strategy.num_replicas_in_sync());
        EXPECT_EQ(a.read_value().to<float>(), -8 * n);
        EXPECT_EQ(strategy.reduce(ReduceOp::Sum, Tensor(1.f)).to<float>(), 2);
      },
      options(true));
}

TEST(MultiWorkerTraining, TracedStepsWork) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable w(1.f);
    optim::Sgd optimizer({.learning_rate = 1.0});
    const auto step = function([&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = w * x;
      optimizer.apply_gradients(tape.gradient(loss, std::vector{w}), {w});
      return loss;
    });
    const auto x = strategy.run([] {
      return Tensor(static_cast<float>(get_replica_context()->replica_id_in_sync_group() + 1));
    });
    strategy.run(step, x);
    EXPECT_EQ(w.read_value().to<float>(), -2);
  });
}

TEST(MultiWorkerTraining, GradientsThatSomeWorkersDoNotHaveCountAsZero) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable both(1.f);
    Variable first(1.f);
    Variable none(1.f);
    Variable table(zeros({4, 2}));
    optim::Sgd optimizer({.learning_rate = 1.0});
    for (int i = 0; i < 2; ++i) {
      strategy.run([&] {
        GradientTape tape;
        Tensor loss = both * 2.f;
        if (strategy.worker_id() == 0)
          loss = loss + first + sum(gather(table, Tensor({int64_t{1}})));
        const std::vector<Variable> all{both, first, none, table};
        optimizer.apply_gradients(tape.gradient(loss, all), all);
      });
    }
    EXPECT_EQ(both.read_value().to<float>(), -7);
    EXPECT_EQ(first.read_value().to<float>(), -1);
    EXPECT_EQ(none.read_value().to<float>(), 1);
    EXPECT_EQ(floats(table.read_value()), (std::vector<float>{0, 0, -2, -2, 0, 0, 0, 0}));
  });
}

TEST(MultiWorkerTraining, DifferentStepsAreNamedOnEveryWorker) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    strategy.run([&] {
      ReplicaContext& replica = *get_replica_context();
      if (strategy.worker_id() == 0) {
        replica.all_reduce(ReduceOp::Sum, zeros({2}));
      } else {
        replica.all_reduce(ReduceOp::Sum, zeros({3}));
      }
    });
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("task:0"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("task:1"), std::string::npos) << status.message;
  }
}

// One worker computes longer than the other; the chief says who.
TEST(MultiWorkerTraining, NamesTheWorkerThatOthersWaitFor) {
  testing::internal::CaptureStderr();
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable w(0.f);
    optim::Sgd optimizer({.learning_rate = 1.0});
    const auto batches =
        with_policy(data::from_tensor_slices(zeros({50, 2})).batch(2), AutoShardPolicy::Data);
    for (const auto& batch : strategy.distribute_dataset(batches)) {
      strategy.run(
          [&](const Tensor&) {
            const auto until = std::chrono::steady_clock::now() +
                               std::chrono::milliseconds(strategy.worker_id() == 1 ? 8 : 2);
            while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
            optimizer.apply_gradients({Tensor(1.f)}, {w});
          },
          batch);
    }
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the others wait for /job:worker/replica:0/task:1"), std::string::npos)
      << said;
}

// --- Guards

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
        if (strategy.worker_id() == 1) w.assign(Tensor({1.f, 2.5f}));
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

// --- Checkpoints

TEST(MultiWorkerCheckpoint, TheChiefWritesAndAllRestore) {
  const TemporaryFolder folder;
  on_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        Variable w(5.f);
        Variable seen(0.f, {.synchronization = VariableSynchronization::OnRead,
                            .aggregation = VariableAggregation::Sum});
        strategy.run([&] { seen.assign_add(1.f); });
        // Each worker names a folder of its own: only the chief's comes into being.
        const std::string own = folder.path() + "/" + std::to_string(strategy.worker_id());
        Checkpoint checkpoint({{"w", w}, {"seen", seen}});
        checkpoint.save(own + "/ckpt");
        strategy.communicator().barrier();
        EXPECT_TRUE(checkpoint_exists(folder.path() + "/0/ckpt-1"));
        EXPECT_FALSE(checkpoint_exists(folder.path() + "/1/ckpt-1"));
        w.assign(0.f);
        seen.assign(0.f);
        checkpoint.restore(folder.path() + "/0/ckpt-1").assert_consumed();
        EXPECT_EQ(w.read_value().to<float>(), 5);
        EXPECT_EQ(seen.read_value().to<float>(), 4);
        EXPECT_EQ(strategy.local_results(seen)[0].read_value().to<float>(), 1);
      },
      kTwoReplicas);
}

TEST(Backups, RefuseWhatMakesNoSense) {
  OneDeviceStrategy strategy("CPU:0");
  const auto make = [&](const BackupOptions& options) {
    const BackupAndRestore backup(strategy, {}, options);
  };
  EXPECT_ERROR(Code::InvalidArgument, "folder", make({}));
  EXPECT_ERROR(Code::InvalidArgument, "every_steps", make({.folder = "x", .every_steps = 0}));
}

// A program that stops in the middle and is started again, in one process.
TEST(Backups, GoOnWhereTheLastOneIs) {
  const TemporaryFolder folder;
  std::vector<int64_t> seen;
  const auto run_until = [&](int64_t stop) {
    MirroredStrategy strategy({"CPU:0", "CPU:1"});
    const auto scope = strategy.scope();
    Variable total(int64_t{0}, {.aggregation = VariableAggregation::Sum});
    optim::Adam optimizer;
    Variable w(1.f);
    BackupAndRestore backup(strategy, {{"total", total}, {"w", w}, {"optimizer", optimizer}},
                            {.folder = folder.path(), .every_steps = 3});
    const auto data = strategy.distribute_dataset(data::range(20).batch(2));
    backup.run(data, [&](const DistributedElement& element) {
      seen.push_back(element[0].tensor().to_vector<int64_t>()[0]);
      strategy.run(
          [&](const Tensor& x) {
            total.assign_add(sum(x));
            optimizer.apply_gradients({Tensor(1.f)}, {w});
          },
          element);
      if (seen.back() == stop) throw Error(Code::Internal, "the machine is switched off");
    });
    EXPECT_EQ(backup.report().steps, 10);
    EXPECT_EQ(total.read_value().to<int64_t>(), 190);
    EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 10);
    return w.read_value().to<float>();
  };
  EXPECT_ERROR(Code::Internal, "switched off", run_until(2));  // before the first backup
  EXPECT_ERROR(Code::Internal, "switched off", run_until(8));
  const float result = run_until(-1);
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 2, 0, 2, 4, 6, 8, 6, 8, 10, 12, 14, 16, 18}));
  MirroredStrategy other({"CPU:0", "CPU:1"});
  EXPECT_LT(result, 1);
}

}  // namespace
}  // namespace cohort
