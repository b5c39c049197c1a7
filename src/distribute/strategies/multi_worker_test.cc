#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/collective.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

using test::kTwoReplicas;
using test::on_workers;
using test::run_workers;

std::vector<float> floats(const Tensor& value) { return value.to_vector<float>(); }

PerReplica<Tensor> ids(MultiWorkerMirroredStrategy& strategy) {
  return strategy.run(
      [] { return Tensor(static_cast<float>(get_replica_context()->replica_id_in_sync_group())); });
}

TEST(MultiWorker, KnowsItsPlace) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        EXPECT_EQ(strategy.num_workers(), 2);
        EXPECT_EQ(strategy.num_replicas_in_sync(), 4);
        EXPECT_EQ(strategy.is_chief(), strategy.worker_id() == 0);
        EXPECT_EQ(strategy.extended().should_checkpoint(), strategy.is_chief());
        EXPECT_EQ(strategy.extended().should_save_summary(), strategy.is_chief());
        EXPECT_TRUE(strategy.extended().should_init());
        EXPECT_TRUE(strategy.extended().between_graph());
        const auto local = strategy.local_results(ids(strategy));
        ASSERT_EQ(local.size(), 2u);
        EXPECT_EQ(local[0].to<float>(), 2.f * strategy.worker_id());
        EXPECT_EQ(local[1].to<float>(), 2.f * strategy.worker_id() + 1);
        EXPECT_NE(strategy.cluster_resolver(), nullptr);
        EXPECT_NE(strategy.to_string().find("num_replicas_in_sync=4"), std::string::npos);
      },
      kTwoReplicas);
}

TEST(MultiWorker, ReducesOverAllReplicas) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto own = ids(strategy);
        EXPECT_EQ(strategy.reduce(ReduceOp::Sum, own).to<float>(), 6);
        EXPECT_EQ(strategy.reduce(ReduceOp::Mean, own).to<float>(), 1.5);
        EXPECT_EQ(strategy.reduce(ReduceOp::Max, own).to<float>(), 3);
        EXPECT_EQ(strategy.reduce(ReduceOp::Min, own).to<float>(), 0);
        EXPECT_EQ(strategy.reduce(ReduceOp::Product, own).to<float>(), 0);
      },
      kTwoReplicas);
}

TEST(MultiWorker, ReducesRaggedValuesAlongAnAxis) {
  on_workers(3, [](MultiWorkerMirroredStrategy& strategy) {
    const std::vector<std::vector<float>> values{{2, 4}, {6}, {}};
    const auto own = strategy.run(
        [&] { return Tensor::from(values[static_cast<size_t>(strategy.worker_id())]); });
    EXPECT_EQ(strategy.reduce(ReduceOp::Sum, own, 0).to<float>(), 12);
    EXPECT_EQ(strategy.reduce(ReduceOp::Mean, own, 0).to<float>(), 4);
    EXPECT_EQ(strategy.reduce(ReduceOp::Max, own, 0).to<float>(), 6);
    EXPECT_EQ(strategy.reduce(ReduceOp::Min, own, 0).to<float>(), 2);
    const auto whole = strategy.run([&] {
      return cast(Tensor::from(values[static_cast<size_t>(strategy.worker_id())]), kInt64);
    });
    EXPECT_EQ(strategy.reduce(ReduceOp::Max, whole, 0).to<int64_t>(), 6);
    EXPECT_EQ(strategy.reduce(ReduceOp::Min, whole, 0).to<int64_t>(), 2);
    const auto none = strategy.run([] { return zeros({0}); });
    EXPECT_ERROR(Code::InvalidArgument, "all replicas' values are empty",
                 strategy.reduce(ReduceOp::Max, none, 0));
  });
}

TEST(MultiWorker, APlainTensorIsOneContributionPerWorker) {
  on_workers(
      3,
      [](MultiWorkerMirroredStrategy& strategy) {
        EXPECT_EQ(strategy.reduce(ReduceOp::Sum, Tensor(5.f)).to<float>(), 15);
        EXPECT_EQ(strategy.reduce(ReduceOp::Mean, Tensor(5.f)).to<float>(), 5);
        const Tensor pair({1.f, 2.f});
        EXPECT_EQ(strategy.reduce(ReduceOp::Sum, pair, 0).to<float>(), 9);
        EXPECT_EQ(strategy.gather(pair, 0).shape(), Shape({6}));
      },
      kTwoReplicas);
}

TEST(MultiWorker, MeansOfIntegersAreFloating) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto own = strategy.run([&] { return Tensor(strategy.worker_id()); });
    const Tensor mean = strategy.reduce(ReduceOp::Mean, own);
    EXPECT_TRUE(is_floating(mean.dtype()));
    EXPECT_EQ(mean.to<double>(), 0.5);
  });
}

TEST(MultiWorker, GathersInTheOrderOfTheReplicas) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto own = strategy.run([] {
          const int id = get_replica_context()->replica_id_in_sync_group();
          return fill({2, id + 1}, static_cast<float>(id));
        });
        const Tensor all = strategy.gather(own, 1);
        EXPECT_EQ(all.shape(), Shape({2, 10}));
        EXPECT_EQ(floats(all[0]), (std::vector<float>{0, 1, 1, 2, 2, 2, 3, 3, 3, 3}));
      },
      kTwoReplicas);
}

TEST(MultiWorker, RefusesToGatherWhatDoesNotFitOnEveryWorker) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto own = strategy.run([&] { return zeros({2, strategy.worker_id() + 1}); });
    strategy.gather(own, 0);
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
    EXPECT_NE(status.message.find("/job:worker/replica:0/task:1"), std::string::npos);
  }
}

TEST(MultiWorker, AllReduceHasGradients) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const float scale = strategy.worker_id() == 0 ? 2 : 5;
    const auto step = [&](ReduceOp op) {
      Tensor x(1.f);
      GradientTape tape;
      tape.watch(x);
      const Tensor y = get_replica_context()->all_reduce(op, x) * scale;
      return tape.gradient(y, x);
    };
    EXPECT_EQ(strategy.run([&] { return step(ReduceOp::Sum); }).value().dense().to<float>(), 7);
    EXPECT_EQ(strategy.run([&] { return step(ReduceOp::Mean); }).value().dense().to<float>(), 3.5);
  });
}

TEST(MultiWorker, AllGatherHasGradients) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto gradient = strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      Tensor x = id == 0 ? Tensor({7.f}) : Tensor({8.f, 9.f});
      GradientTape tape;
      tape.watch(x);
      const Tensor all = get_replica_context()->all_gather(x, 0);
      EXPECT_EQ(floats(all), (std::vector<float>{7, 8, 9}));
      return tape.gradient(sum(all) * static_cast<float>(id + 1), x);
    });
    EXPECT_EQ(floats(gradient.value().dense()),
              std::vector<float>(static_cast<size_t>(strategy.worker_id()) + 1, 3));
  });
}

TEST(MultiWorker, AllReduceTakesStructuresRowsAndManyDtypes) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto sums = strategy.run([] {
          const int id = get_replica_context()->replica_id_in_sync_group();
          const std::map<std::string, Tensor> own{{"a", Tensor(id)}, {"b", Tensor({1.f, 2.f})}};
          const IndexedSlices rows{Tensor({{1.f, 1.f}}), Tensor({int64_t{id}}), {4, 2}};
          const IndexedSlices all = get_replica_context()->all_reduce(ReduceOp::Sum, rows);
          EXPECT_EQ(all.indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
          return get_replica_context()->all_reduce(ReduceOp::Sum, own);
        });
        EXPECT_EQ(sums[0].at("a").to<int>(), 6);
        EXPECT_EQ(floats(sums[1].at("b")), (std::vector<float>{4, 8}));
      },
      kTwoReplicas);
}

TEST(MultiWorker, MergeCallHasTheLocalValues) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto merged = strategy.run([] {
          const Tensor own(static_cast<float>(get_replica_context()->replica_id_in_sync_group()));
          return get_replica_context()->merge_call(
              [](Strategy& inside, const PerReplica<Tensor>& all) {
                EXPECT_EQ(all.size(), 2u);
                return inside.reduce(ReduceOp::Sum, all);
              },
              own);
        });
        EXPECT_EQ(merged[0].to<float>(), 6);
      },
      kTwoReplicas);
}

TEST(MultiWorker, VariablesBeginWithTheChiefsValue) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        const Variable v(static_cast<float>(strategy.worker_id() + 7), {.name = "v"});
        for (const Variable& copy : strategy.local_results(v)) {
          EXPECT_EQ(copy.read_value().to<float>(), 7);
        }
      },
      kTwoReplicas);
}

TEST(MultiWorker, NamesVariablesThatDiffer) {
  const auto statuses = run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const Variable v(1.f, {.name = strategy.worker_id() == 0 ? "weights" : "bias"});
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("'weights'"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("'bias'"), std::string::npos) << status.message;
  }
}

TEST(MultiWorker, WritesInReplicasAreAggregatedOverWorkers) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const auto make = [](VariableAggregation aggregation) {
      return Variable(100.f, {.aggregation = aggregation});
    };
    Variable sums = make(VariableAggregation::Sum);
    Variable means = make(VariableAggregation::Mean);
    Variable firsts = make(VariableAggregation::OnlyFirstReplica);
    strategy.run([&] {
      const Tensor own(static_cast<float>(get_replica_context()->replica_id_in_sync_group() + 1));
      sums.assign_add(own * 1);
      means.assign_add(own * 1);
      firsts.assign_add(own * 1);
    });
    EXPECT_EQ(sums.read_value().to<float>(), 103);
    EXPECT_EQ(means.read_value().to<float>(), 101.5);
    EXPECT_EQ(firsts.read_value().to<float>(), 101);
    EXPECT_ERROR(Code::InvalidArgument, "sums what replicas write",
                 strategy.run([&] { sums.assign_add(1.f); }));
  });
}

TEST(MultiWorker, SyncOnReadIsReadOverAllWorkers) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        const auto make = [](VariableAggregation aggregation) {
          return Variable(0.f, {.synchronization = VariableSynchronization::OnRead,
                                .aggregation = aggregation});
        };
        Variable sums = make(VariableAggregation::Sum);
        Variable means = make(VariableAggregation::Mean);
        Variable firsts = make(VariableAggregation::OnlyFirstReplica);
        strategy.run([&] {
          const float id = static_cast<float>(get_replica_context()->replica_id_in_sync_group());
          for (Variable* each : {&sums, &means, &firsts}) each->assign_add(id + 1);
        });
        EXPECT_EQ(sums.read_value().to<float>(), 10);
        EXPECT_EQ(means.read_value().to<float>(), 2.5);
        EXPECT_EQ(firsts.read_value().to<float>(), 1);
        sums.assign(8.f);
        EXPECT_EQ(strategy.local_results(sums)[1].read_value().to<float>(), 2);
        EXPECT_EQ(sums.read_value().to<float>(), 8);
      },
      kTwoReplicas);
}

TEST(MultiWorker, OneWorkerIsAMirroredStrategy) {
  MultiWorkerMirroredStrategy alone(SimpleClusterResolver(ClusterSpec()), kTwoReplicas);
  EXPECT_EQ(alone.num_replicas_in_sync(), 2);
  EXPECT_TRUE(alone.is_chief());
  EXPECT_FALSE(alone.communicator().defined());
  EXPECT_EQ(alone.reduce(ReduceOp::Sum, ids(alone)).to<float>(), 1);
  EXPECT_ERROR(Code::InvalidArgument, "", alone.reduce(ReduceOp::Sum, Tensor(5.f)));
  on_workers(1, [](MultiWorkerMirroredStrategy& strategy) {
    EXPECT_EQ(strategy.num_workers(), 1);
    EXPECT_EQ(strategy.deep_copy()->num_replicas_in_sync(), 1);
  });
}

TEST(MultiWorker, ReadsTfConfig) {
  const ScopedEnvironment config({{"TF_CONFIG", std::nullopt}});
  MultiWorkerMirroredStrategy alone;
  EXPECT_EQ(alone.num_workers(), 1);
  MultiWorkerMirroredStrategy old(CommunicationImplementation::Ring);
  EXPECT_EQ(old.num_workers(), 1);
}

TEST(MultiWorker, CannotBeCopied) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    EXPECT_ERROR(Code::InvalidArgument, "cannot be copied", strategy.deep_copy());
  });
}

// --- Gradients that not all have

// One for each of three variables of shape (2,): worker 0 lacks the first, worker 1 the second.
Gradients lacking(const MultiWorkerMirroredStrategy& strategy) {
  const auto own = static_cast<float>(strategy.worker_id() + 1);
  Gradients all{fill({2}, own), fill({2}, 10 * own), fill({2}, 100 * own)};
  all[static_cast<size_t>(strategy.worker_id())] = {};
  return all;
}

TEST(MultiWorker, AllReduceNeverAddsUpDifferentGradients) {
  for (const MultiWorkerOptions& options : {MultiWorkerOptions{}, kTwoReplicas}) {
    on_workers(
        2,
        [](MultiWorkerMirroredStrategy& strategy) {
          const auto each = static_cast<float>(strategy.num_replicas_in_sync()) / 2;
          for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean}) {
            const float unit = op == ReduceOp::Sum ? each : 0.5f;
            const auto sums = strategy.run(
                [&] { return get_replica_context()->all_reduce(op, lacking(strategy)); });
            for (size_t r = 0; r < sums.size(); ++r) {
              EXPECT_EQ(floats(sums[r][0].dense()), std::vector<float>(2, 2 * unit));
              EXPECT_EQ(floats(sums[r][1].dense()), std::vector<float>(2, 10 * unit));
              EXPECT_EQ(floats(sums[r][2].dense()), std::vector<float>(2, 300 * unit));
            }
          }
          EXPECT_EQ(strategy.reduce(ReduceOp::Sum, Tensor(1.f)).to<float>(), 2);
        },
        options);
  }
}

TEST(MultiWorker, AllReduceMeetsOthersWithoutAnyGradient) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const bool has = strategy.worker_id() == 1;
    const auto sums = strategy.run([&] {
      const Gradients own{has ? Gradient(Tensor({1.f, 2.f})) : Gradient(), Gradient()};
      return get_replica_context()->all_reduce(ReduceOp::Sum, own);
    });
    EXPECT_EQ(floats(sums[0][0].dense()), (std::vector<float>{1, 2}));
    EXPECT_FALSE(sums[0][1].defined());
    const auto none =
        strategy.run([] { return get_replica_context()->all_reduce(ReduceOp::Max, Gradients(2)); });
    EXPECT_FALSE(none[0][0].defined() || none[0][1].defined());
  });
}

TEST(MultiWorker, AllReduceJoinsRowsWithDenseGradientsAndNone) {
  on_workers(3, [](MultiWorkerMirroredStrategy& strategy) {
    const int id = strategy.worker_id();
    const auto sums = strategy.run([&] {
      const Gradient own = id == 0 ? Gradient()
                           : id == 1
                               ? Gradient(IndexedSlices{ones({1, 2}), Tensor({int64_t{2}}), {3, 2}})
                               : Gradient(fill({3, 2}, 5.f));
      return get_replica_context()->all_reduce(ReduceOp::Sum, Gradients{own});
    });
    EXPECT_TRUE(sums[0][0].is_sparse());
    EXPECT_EQ(floats(sums[0][0].dense()), (std::vector<float>{5, 5, 5, 5, 6, 6}));
  });
}

TEST(MultiWorker, AMaximumOfGradientsThatSomeLackIsAnErrorOnEveryWorker) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        EXPECT_ERROR(Code::InvalidArgument, "task:1 does not have it in all of its replicas",
                     strategy.run([&] {
                       const int id = get_replica_context()->replica_id_in_sync_group();
                       const Gradients own{id < 3 ? Gradient(Tensor(1.f)) : Gradient()};
                       return get_replica_context()->all_reduce(ReduceOp::Max, own);
                     }));
        EXPECT_EQ(strategy.reduce(ReduceOp::Sum, Tensor(1.f)).to<float>(), 2);
      },
      kTwoReplicas);
}

TEST(MultiWorker, AnUpdateTakesWhatOnlyOtherWorkersHave) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable a(0.f);
    Variable b(0.f);
    optim::Sgd optimizer({.learning_rate = 1.0});
    for (int step = 0; step < 3; ++step) {
      strategy.run([&] {
        Gradients own(2);
        if (strategy.worker_id() == 1) own[0] = Tensor(2.f);
        optimizer.apply_gradients(own, {a, b});
      });
    }
    EXPECT_EQ(a.read_value().to<float>(), -6);
    EXPECT_EQ(b.read_value().to<float>(), 0);
  });
}

TEST(MultiWorker, BatchesRefuseTheSumOfAMirroredValue) {
  on_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
    const DistributedValue same(DistributedValue::Kind::Mirrored, {Tensor(3.f)});
    const std::vector<ReduceRequest> requests{{ids(strategy), "CPU:0"}, {same, "CPU:0"}};
    EXPECT_ERROR(Code::InvalidArgument, "the same for all of them",
                 strategy.extended().batch_reduce_to(ReduceOp::Sum, requests));
    const auto means = strategy.extended().batch_reduce_to(ReduceOp::Mean, requests);
    EXPECT_EQ(means[0][0].dense().to<float>(), 0.5);
    EXPECT_EQ(means[1][0].dense().to<float>(), 3);
  });
}

}  // namespace
}  // namespace cohort
