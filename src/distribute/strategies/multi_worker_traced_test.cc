// Functions around run() of several workers: the same results as without them.

#include <gtest/gtest.h>

#include <barrier>

#include "cohort/cohort.h"
#include "cohort/collective.h"
#include "support/expect_error.h"
#include "support/local_workers.h"

namespace cohort {
namespace {

using test::on_workers;
using test::run_workers;
using Numbers = std::vector<float>;

Numbers numbers(const Tensor& value) { return value.to_vector<float>(); }
int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

// With how many replicas each of the two workers has.
class MultiWorkerTraced : public testing::TestWithParam<int> {
 protected:
  void on_two_workers(const std::function<void(MultiWorkerMirroredStrategy&)>& body) const {
    on_workers(2, body, options());
  }
  MultiWorkerOptions options() const {
    MultiWorkerOptions options;
    for (int i = 0; i < GetParam(); ++i) options.devices.push_back("CPU:" + std::to_string(i));
    return options;
  }
  // All replicas.
  static float count(const Strategy& strategy) {
    return static_cast<float>(strategy.num_replicas_in_sync());
  }
  // first, first + 1 and so on, by replica.
  static PerReplica<Tensor> from(MultiWorkerMirroredStrategy& strategy, float first) {
    return strategy.distribute_values_from_function([first](ValueContext context) {
      return Tensor({first + static_cast<float>(context.replica_id_in_sync_group)});
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Replicas, MultiWorkerTraced, testing::Values(1, 2));

// Dense and sparse gradients, and a reduced loss.
Numbers train(MultiWorkerMirroredStrategy& strategy, bool traced) {
  random::set_seed(5);
  const auto scope = strategy.scope();
  Variable w(Tensor({{0.5f, -1.f}, {2.f, 1.f}}), {.name = "w"});
  Variable table(ones({4, 2}), {.name = "table"});
  optim::Adam optimizer({.learning_rate = 0.1});
  const auto replica_step = [&](const Tensor& x) {
    GradientTape tape;
    const Tensor rows = gather(table, cast(x, kInt64));
    const Tensor loss = sum(square(matmul(rows, w) * x)) / 4.f;
    const std::vector<Variable> all{w, table};
    optimizer.apply_gradients(tape.gradient(loss, all), all);
    return loss;
  };
  const auto step = [&](const PerReplica<Tensor>& x) {
    return strategy.reduce(ReduceOp::Sum, strategy.run(replica_step, x));
  };
  const auto traced_step = function(step);
  Numbers results;
  for (int i = 0; i < 4; ++i) {
    const auto x = strategy.distribute_values_from_function([&](ValueContext context) {
      return Tensor({static_cast<float>((context.replica_id_in_sync_group + i) % 4)});
    });
    results.push_back((traced ? traced_step(x) : step(x)).to<float>());
  }
  for (const Variable& variable : {w, table}) {
    for (const float each : numbers(variable.read_value())) results.push_back(each);
  }
  return results;
}

// What two epochs over data that does not divide evenly leave in a variable, and their losses.
Numbers train_epochs(MultiWorkerMirroredStrategy& strategy, bool traced) {
  const auto scope = strategy.scope();
  Variable w(3.f, {.name = "w"});
  optim::Sgd optimizer({.learning_rate = 0.01});
  const auto dist = strategy.distribute_dataset(
      data::range(11).map([](int64_t n) { return static_cast<float>(n); }).batch(4));
  const auto replica_step = [&](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = sum(square(x - w)) / 4.f;
    const std::vector<Variable> all{w};
    optimizer.apply_gradients(tape.gradient(loss, all), all);
    return loss;
  };
  const auto epoch = [&](DistributedIterator it) {
    return it.reduce({Tensor(0.f)}, [&](std::span<const Tensor> total, const auto& batch) {
      const auto losses = strategy.run(replica_step, batch);
      return std::vector<Tensor>{total[0] + strategy.reduce(ReduceOp::Sum, losses)};
    })[0];
  };
  const auto traced_epoch = function(epoch);
  Numbers results;
  for (int i = 0; i < 2; ++i) {
    results.push_back(
        (traced ? traced_epoch(dist.iterator()) : epoch(dist.iterator())).to<float>());
  }
  results.push_back(Tensor(w).to<float>());
  return results;
}

TEST_P(MultiWorkerTraced, AnEpochIsTheSameAsWithoutTracing) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const Numbers plain = train_epochs(strategy, false);
    const Numbers traced = train_epochs(strategy, true);
    ASSERT_EQ(plain.size(), traced.size());
    EXPECT_GT(plain[0], plain[1]);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(plain[i], traced[i]) << i;
  });
}

TEST_P(MultiWorkerTraced, TrainsAsWithoutTheFunction) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const Numbers expected = train(strategy, false);
    const Numbers found = train(strategy, true);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_FLOAT_EQ(found[i], expected[i]) << i;
    // And all workers alike.
    const Tensor all = strategy.gather(Tensor::from(found), 0);
    EXPECT_EQ(numbers(all), numbers(concat({Tensor::from(found), Tensor::from(found)}, 0)));
  });
}

TEST_P(MultiWorkerTraced, MakesTheLayersOfAFirstCallAlikeOnAllWorkers) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const nn::Sequential model{nn::Dense(3, {.activation = nn::tanh}), nn::Dense(2), nn::Dense(1)};
    const auto step = function([&](const PerReplica<Tensor>& x) {
      return strategy.run([&](const Tensor& own) { return model(reshape(own, {1, 1})); }, x);
    });
    step(from(strategy, 1.f));
    ASSERT_EQ(model.variables().size(), 6u);
    for (const Variable& variable : model.variables()) {
      const Tensor own = reshape(variable.read_value(), {-1});
      EXPECT_EQ(numbers(strategy.gather(own, 0)), numbers(concat({own, own}, 0)));
    }
  });
}

// Batches of 5, 5 and 1 samples, in functions that iterate and in functions that take the elements.
TEST_P(MultiWorkerTraced, KnowsTheGlobalBatchOfEachStep) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto mean_of = [&](const DistributedElement& batch) {
      const Tensor samples = batch.global_batch_size();
      const auto part = [&](const Tensor& x) {
        return nn::compute_average_loss(x, {.global_batch_size = samples});
      };
      return strategy.reduce(ReduceOp::Sum, strategy.run(part, batch));
    };
    const DistributedDataset batches = strategy.distribute_dataset(
        data::from_tensor_slices(cast(range(11), kFloat32))
            .batch(5)
            .options({.auto_shard_policy = data::AutoShardPolicy::Data}));
    const auto taking = function(mean_of);
    Numbers taken;
    for (const auto& batch : batches) taken.push_back(taking(batch).to<float>());
    EXPECT_EQ(taken, (Numbers{2, 7, 10}));
    const auto iterating = function([&](DistributedIterator it) { return mean_of(it.next()); });
    const DistributedIterator it = batches.iterator();
    Numbers found;
    for (int i = 0; i < 3; ++i) found.push_back(iterating(it).to<float>());
    EXPECT_EQ(found, taken);
  });
}

// Workers do not count together in endless data; static sizes tell all the same.
TEST_P(MultiWorkerTraced, SaysWhereTheGlobalBatchIsNotCounted) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto size_in_trace = [&](const data::Dataset& dataset) {
      const auto step =
          function([](DistributedIterator it) { return it.next().global_batch_size(); });
      return step(strategy.distribute_dataset(dataset).iterator()).to<int64_t>();
    };
    const data::Dataset endless =
        data::range(8).repeat().options({.auto_shard_policy = data::AutoShardPolicy::Data});
    EXPECT_EQ(size_in_trace(endless.batch(4, {.drop_remainder = true})), 4);
    EXPECT_ERROR(Code::FailedPrecondition, "not counted for endless data",
                 size_in_trace(endless.batch(4)));
  });
}

TEST_P(MultiWorkerTraced, ReducesAndDifferentiates) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto step = function([&](const PerReplica<Tensor>& x) {
      return strategy.run(
          [](Tensor own) {
            GradientTape tape;
            tape.watch(own);
            const Tensor total = get_replica_context()->all_reduce(ReduceOp::Sum, own);
            const Tensor most = get_replica_context()->all_reduce(ReduceOp::Max, own);
            const Tensor loss = total * static_cast<float>(replica_id() + 1);
            return std::tuple(total, most, tape.gradient(loss, own).dense());
          },
          x);
    });
    const float n = count(strategy);
    for (const float first : {1.f, 5.f}) {
      const auto results = step(from(strategy, first));
      for (const auto& [total, most, slope] : strategy.local_results(results)) {
        EXPECT_EQ(total.to<float>(), n * first + n * (n - 1) / 2);
        EXPECT_EQ(most.to<float>(), first + n - 1);
        EXPECT_EQ(slope.to<float>(), n * (n + 1) / 2);
      }
    }
  });
}

TEST_P(MultiWorkerTraced, GathersAnyNumberOfRowsAndDifferentiates) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto step = function([&](const PerReplica<Tensor>& x) {
      return strategy.run(
          [](Tensor own) {
            GradientTape tape;
            tape.watch(own);
            const Tensor all = get_replica_context()->all_gather(own, 0);
            return std::pair(all, tape.gradient(sum(all * all), own).dense());
          },
          x);
    });
    for (int64_t rows = 1; rows < 6; ++rows) {
      const auto x = strategy.distribute_values_from_function([&](ValueContext context) {
        const int id = context.replica_id_in_sync_group;
        return fill({rows + id, 1}, static_cast<float>(id + 1));
      });
      Numbers expected;
      for (int id = 0; id < strategy.num_replicas_in_sync(); ++id) {
        expected.insert(expected.end(), static_cast<size_t>(rows + id), static_cast<float>(id + 1));
      }
      const auto results = strategy.local_results(step(x));
      for (size_t r = 0; r < results.size(); ++r) {
        EXPECT_EQ(numbers(results[r].first), expected);
        const int id = strategy.extended().replica_id(r);
        EXPECT_EQ(numbers(results[r].second),
                  Numbers(static_cast<size_t>(rows + id),
                          2 * count(strategy) * static_cast<float>(id + 1)));
      }
    }
  });
}

TEST_P(MultiWorkerTraced, MergesReducesAndGathersOutsideOfReplicas) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto step = function([&](const PerReplica<Tensor>& x) {
      const auto merged = strategy.run(
          [](Tensor own) {
            return get_replica_context()->merge_call(
                [](Strategy& all, const PerReplica<Tensor>& each) {
                  return all.reduce(ReduceOp::Mean, each);
                },
                own);
          },
          x);
      return std::tuple(strategy.reduce(ReduceOp::Sum, merged), strategy.gather(x, 0),
                        strategy.reduce(ReduceOp::Mean, x, 0), strategy.reduce(ReduceOp::Max, x, 0),
                        strategy.reduce(ReduceOp::Sum, Tensor({2.f})));
    });
    const float n = count(strategy);
    for (const float first : {1.f, 5.f}) {
      const auto [total, all, mean, most, plain] = step(from(strategy, first));
      const float average = first + (n - 1) / 2;
      EXPECT_EQ(total.to<float>(), n * average);
      EXPECT_EQ(all.shape(), Shape({static_cast<int64_t>(n)}));
      EXPECT_EQ(numbers(all).back(), first + n - 1);
      EXPECT_EQ(mean.to<float>(), average);
      EXPECT_EQ(most.to<float>(), first + n - 1);
      EXPECT_EQ(plain.to<float>(), 4);  // one contribution per worker
    }
  });
}

TEST_P(MultiWorkerTraced, WritesVariablesByTheirAggregation) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const auto make = [](VariableAggregation how) { return Variable(0.f, {.aggregation = how}); };
    Variable total = make(VariableAggregation::Sum);
    Variable mean = make(VariableAggregation::Mean);
    Variable first = make(VariableAggregation::OnlyFirstReplica);
    Variable seen(0.f, {.synchronization = VariableSynchronization::OnRead,
                        .aggregation = VariableAggregation::Sum});
    const auto step = function([&](const PerReplica<Tensor>& x) {
      strategy.run(
          [&](Tensor own) {
            const Tensor value = reshape(own, Shape{});
            total.assign_add(value);
            mean.assign(value);
            first.assign(value);
            seen.assign_add(value);
          },
          x);
      return seen.read_value();
    });
    const float n = count(strategy);
    const float sum_of_all = n + n * (n - 1) / 2;
    for (int i = 1; i < 3; ++i) {
      EXPECT_EQ(step(from(strategy, 1)).to<float>(), static_cast<float>(i) * sum_of_all);
      EXPECT_EQ(total.read_value().to<float>(), static_cast<float>(i) * sum_of_all);
      EXPECT_EQ(mean.read_value().to<float>(), sum_of_all / n);
      EXPECT_EQ(first.read_value().to<float>(), 1);
    }
    for (const Variable& copy : strategy.local_results(first)) {
      EXPECT_EQ(copy.read_value().to<float>(), 1);
    }
  });
}

// The end of the data is agreed on between the reductions, in one order on all workers.
TEST_P(MultiWorkerTraced, TakesSeveralStepsOfADatasetInOneCall) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    const auto data =
        strategy.distribute_dataset(data::range(32).batch(4, {.drop_remainder = true}));
    auto iterator = data.iterator();
    const auto two_steps = function([&] {
      Tensor total = zeros({}, kInt64);
      for (int i = 0; i < 2; ++i) {
        const auto sums = strategy.run([](Tensor x) { return sum(x); }, iterator.next());
        total = total + strategy.reduce(ReduceOp::Sum, sums);
      }
      return total;
    });
    int64_t all = 0;
    for (int i = 0; i < 4; ++i) all += two_steps().to<int64_t>();
    EXPECT_EQ(all, 31 * 32 / 2);
    EXPECT_THROW(two_steps(), Error);
  });
}

TEST_P(MultiWorkerTraced, MakesVariablesInTheFirstCall) {
  on_two_workers([](MultiWorkerMirroredStrategy& strategy) {
    random::set_seed(100 + strategy.worker_id());  // the first worker's values count
    std::optional<Variable> made;
    const auto step = function([&](const PerReplica<Tensor>& x) {
      const auto own = strategy.run(
          [&](Tensor each) {
            if (!made)
              made.emplace([] { return random::normal({1}); });  // one replica after the other
            return each;
          },
          x);
      return strategy.reduce(ReduceOp::Sum, own);
    });
    const float n = count(strategy);
    EXPECT_EQ(step(from(strategy, 1)).to<float>(), n + n * (n - 1) / 2);
    const Tensor all = strategy.gather(made->read_value(), 0);
    EXPECT_EQ(numbers(all)[0], numbers(all)[1]);
  });
}

TEST_P(MultiWorkerTraced, DifferentFunctionsAreNamedOnEveryWorker) {
  const auto statuses = run_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto step = function([&](const PerReplica<Tensor>& x) {
          const auto doubled = strategy.run(
              [&](Tensor own) {
                return strategy.worker_id() == 0 ? own : concat({own, own}, 0);
              },
              x);
          return strategy.reduce(ReduceOp::Sum, doubled);
        });
        step(from(strategy, 1));
      },
      options());
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("/job:worker/replica:0/task:1"), std::string::npos)
        << status.to_string();
  }
}

// They are of the same shape: without a comparison they would be added up.
TEST_P(MultiWorkerTraced, NamesVariablesWhoseGradientsOnlySomeWorkersHave) {
  const auto statuses = run_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        Variable first(1.f, {.name = "first"});
        Variable second(2.f, {.name = "second"});
        optim::Sgd optimizer({.learning_rate = 0.1});
        const auto replica_step = [&](const Tensor& x) {
          GradientTape tape;
          const Tensor loss = sum((strategy.worker_id() == 0 ? first : second) * x);
          const std::vector<Variable> all{first, second};
          optimizer.apply_gradients(tape.gradient(loss, all), all);
          return loss;
        };
        const auto step = function([&](const PerReplica<Tensor>& x) {
          return strategy.reduce(ReduceOp::Sum, strategy.run(replica_step, x));
        });
        step(from(strategy, 1));
      },
      options());
  for (const Status& status : statuses) {
    EXPECT_EQ(status.root().code, Code::FailedPrecondition) << status.to_string();
    for (const char* const part : {"task:0", "task:1", "none for 'first'", "none for 'second'"}) {
      EXPECT_NE(status.to_string().find(part), std::string::npos)
          << part << " in " << status.to_string();
    }
  }
}

TEST(MultiWorkerTracedEnd, AFunctionDoesNotOutliveItsStrategy) {
  const ClusterSpec cluster = test::free_workers(2);
  const auto statuses = test::run_threads(2, [&](int id) {
    auto strategy = std::make_unique<MultiWorkerMirroredStrategy>(test::worker_of(cluster, id));
    const auto total = function([&](Tensor x) { return strategy->reduce(ReduceOp::Sum, x); });
    EXPECT_EQ(total(Tensor(2.f)).to<float>(), 4);
    strategy->communicator().barrier();
    strategy.reset();
    EXPECT_ERROR(Code::FailedPrecondition, "has ended", total(Tensor(2.f)));
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_P(MultiWorkerTraced, NamesTheWorkerWithoutGradients) {
  const auto statuses = run_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto step = function([&](const PerReplica<Tensor>& x) {
          return strategy.run(
              [&](const Tensor& own) {
                const Gradients all{strategy.worker_id() == 0 ? Gradient(own) : Gradient()};
                const Gradients sums = get_replica_context()->all_reduce(ReduceOp::Sum, all);
                return sums[0].defined() ? sums[0].dense() : own;
              },
              x);
        });
        step(from(strategy, 1));
        strategy.communicator().barrier();
      },
      options());
  for (const Status& status : statuses) {
    EXPECT_EQ(status.root().code, Code::FailedPrecondition) << status.to_string();
    for (const char* const part :
         {"task:0", "task:1", "all_reduce of 1 values, none for number 0"}) {
      EXPECT_NE(status.to_string().find(part), std::string::npos)
          << part << " in " << status.to_string();
    }
  }
}

// In functions that the replicas trace: the replicas of one worker, or of two, differ.
TEST_P(MultiWorkerTraced, NamesVariablesWhoseGradientsOnlySomeReplicasHave) {
  std::barrier both(2);  // a worker that leaves would hide why
  run_workers(
      2,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        Variable first(1.f, {.name = "first"});
        Variable second(2.f, {.name = "second"});
        optim::Sgd optimizer({.learning_rate = 0.1});
        const auto step = function([&](const Tensor& x) {
          const bool is_last = replica_id() == strategy.num_replicas_in_sync() - 1;
          GradientTape tape;
          const Tensor loss = sum((is_last ? second : first) * x);
          const std::vector<Variable> all{first, second};
          optimizer.apply_gradients(tape.gradient(loss, all), all);
          return loss;
        });
        const Status status = capture_status([&] { strategy.run(step, from(strategy, 1)); });
        // With two replicas for each worker, the last worker's own differ, and the other one waits.
        EXPECT_EQ(status.root().code, Code::FailedPrecondition) << status.to_string();
        for (const char* const part : {"none for 'first'", "none for 'second'"}) {
          EXPECT_NE(status.to_string().find(part), std::string::npos)
              << part << " in " << status.to_string();
        }
        both.arrive_and_wait();
      },
      options());
}

}  // namespace
}  // namespace cohort
