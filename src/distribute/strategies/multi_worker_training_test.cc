// Whole training programs on several workers: the same results as on one.

#include <gtest/gtest.h>

#include <regex>
#include <thread>

#include "base/activity.h"
#include "cohort/cohort.h"
#include "support/local_workers.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using test::kTwoReplicas;
using test::on_workers;
using test::run_workers;

std::vector<float> floats(const Tensor& value) { return value.to_vector<float>(); }

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
  const auto batches = data::from_tensor_slices(inputs, targets)
                           .batch(8)
                           .options({.auto_shard_policy = AutoShardPolicy::Data});
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

// By workers, and by replicas of one worker.
TEST(MultiWorkerTraining, UpdatesOfListsInAnotherOrderAreRefusedOnEveryWorker) {
  for (const MultiWorkerOptions& options : {MultiWorkerOptions{}, test::kTwoReplicas}) {
    for (const bool traced : {false, true}) {
      const auto statuses = run_workers(
          2,
          [&](MultiWorkerMirroredStrategy& strategy) {
            const auto scope = strategy.scope();
            const Variable a(1.f);
            const Variable b(1.f);
            optim::Sgd optimizer({.learning_rate = 1.0});
            const auto step = [&] {
              const bool turned = get_replica_context()->replica_id_in_sync_group() == 1;
              const auto list = turned ? std::vector{b, a} : std::vector{a, b};
              return optimizer.apply_gradients({Tensor(1.f) + 0.f, Tensor(10.f) + 0.f}, list);
            };
            traced ? strategy.run(function(step)) : strategy.run(step);
          },
          options);
      EXPECT_EQ(statuses[0].root().code, Code::FailedPrecondition) << statuses[0].to_string();
      EXPECT_FALSE(statuses[1].ok());
    }
  }
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

// What the log says of 100 steps of two workers, in each of which `extra` is called as well.
// The strategy looks after every 20 steps. On a loaded machine one look may find both workers slow.
std::string log_of_steps(const std::function<void(int worker)>& extra) {
  testing::internal::CaptureStderr();
  on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable w(0.f);
    optim::Sgd optimizer({.learning_rate = 1.0});
    const auto batches = data::from_tensor_slices(zeros({200, 2}))
                             .batch(2)
                             .options({.auto_shard_policy = AutoShardPolicy::Data});
    for (const auto& batch : strategy.distribute_dataset(batches)) {
      strategy.run(
          [&](const Tensor&) {
            extra(strategy.worker_id());
            optimizer.apply_gradients({Tensor(1.f)}, {w});
          },
          batch);
    }
  });
  return testing::internal::GetCapturedStderr();
}

void compute_for_20_ms() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

// One worker computes longer than the other; the chief says who.
TEST(MultiWorkerTraining, NamesTheWorkerThatOthersWaitFor) {
  const std::string said = log_of_steps([](int worker) {
    if (worker == 1) compute_for_20_ms();
  });
  EXPECT_NE(said.find("the others wait for /job:worker/replica:0/task:1"), std::string::npos)
      << said;
  EXPECT_NE(said.find(" 0.0 ms saving)"), std::string::npos) << said;
}

// As the chief does alone. A few milliseconds of the steps are left for computing.
TEST(MultiWorkerTraining, SaysThatTheOthersWaitWhileAWorkerSaves) {
  const std::string said = log_of_steps([&](int worker) {
    if (worker != 0) return;
    const internal::SavingNote saving;
    compute_for_20_ms();
  });
  const size_t at = said.find("the others wait for /job:worker/replica:0/task:0");
  ASSERT_NE(at, std::string::npos) << said;
  const std::regex form(R"(([0-9.]+) ms compute, ([0-9.]+) ms saving\))");
  std::smatch found;
  const std::string line = said.substr(at, said.find('\n', at) - at);
  ASSERT_TRUE(std::regex_search(line, found, form)) << line;
  EXPECT_GE(std::stod(found[2]), 20) << line;
  EXPECT_LT(std::stod(found[1]), 20) << line;
}

}  // namespace
}  // namespace cohort
