// Replicas call all_reduce inside run().

#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "support/expect_error.h"
#include "support/ways_of_reducing.h"
#include "tensor/memory.h"

namespace cohort {
namespace {

using AllReduce = EveryWay;
INSTANTIATE_TEST_SUITE_P(Ways, AllReduce, kWays, name_of_way);

TEST_P(AllReduce, GivesEveryReplicaTheSame) {
  const auto sum = [](ReduceOp op) {
    return [op] {
      return all_reduce(op, Tensor({1.f, 2.f}) * static_cast<float>(replica_id() + 1));
    };
  };
  EXPECT_EQ(numbers(three_.run(sum(ReduceOp::Sum))), (Numbers{{6, 12}, {6, 12}, {6, 12}}));
  EXPECT_EQ(numbers(three_.run(sum(ReduceOp::Mean))), (Numbers{{2, 4}, {2, 4}, {2, 4}}));
  EXPECT_EQ(numbers(three_.run(sum(ReduceOp::Min))), (Numbers{{1, 2}, {1, 2}, {1, 2}}));
  EXPECT_EQ(numbers(three_.run(sum(ReduceOp::Max))), (Numbers{{3, 6}, {3, 6}, {3, 6}}));
  EXPECT_EQ(numbers(three_.run(sum(ReduceOp::Product))), (Numbers{{6, 48}, {6, 48}, {6, 48}}));
}

// Both calls are alike but for their lines: added up they would be a sum of two different things.
TEST_P(AllReduce, ComparesWhereReplicasCallIt) {
  for (MirroredStrategy* const strategy : {&two_, &three_}) {
    EXPECT_ERROR(Code::FailedPrecondition, "replica_calls_test.cc:", strategy->run([] {
      Tensor first;
      Tensor second;
      if (replica_id() == 0) {
        first = all_reduce(ReduceOp::Sum, Tensor(1.f));
        second = all_reduce(ReduceOp::Sum, Tensor(10.f));
      } else {
        second = get_replica_context()->all_reduce(ReduceOp::Sum, Tensor(10.f));
        first = get_replica_context()->all_reduce(ReduceOp::Sum, Tensor(1.f));
      }
      return first + second;
    }));
  }
}

TEST_P(AllReduce, PutsTheResultOnTheReplicasDevice) {
  const auto devices = two_.run([] { return all_reduce(ReduceOp::Sum, Tensor({1.f})).device(); });
  EXPECT_EQ(devices[0], canonical_device("CPU:0"));
  EXPECT_EQ(devices[1], canonical_device("CPU:1"));
}

// By size the replicas copy their values, let one of them add up, or add up slices. The mean of
// small integers takes more bytes than its terms.
TEST_P(AllReduce, IsRightForEverySize) {
  for (MirroredStrategy* const strategy : {&two_, &three_}) {
    for (const int64_t size : {0, 1, 200, 1000, 1020, 1024, 1030, 5000, 40000}) {
      for (const DType dtype : {kUInt8, kFloat32}) {
        const auto means = strategy->run([&] {
          return all_reduce(ReduceOp::Mean, fill({size}, cast(Tensor(2 * replica_id()), dtype)));
        });
        const std::vector<double> expected(static_cast<size_t>(size),
                                           strategy->num_replicas_in_sync() - 1.0);
        for (const auto& each : numbers(means)) EXPECT_EQ(each, expected) << size;
      }
    }
  }
}

TEST_P(AllReduce, GoesLeafByLeaf) {
  using Nest = std::map<std::string, std::vector<Tensor>>;
  const auto nest = [](float a, float b, float c) {
    return Nest{{"a", {Tensor(a)}}, {"b", {Tensor(b), Tensor(c)}}};
  };
  const auto reduce = [&](ReduceOp op) {
    return two_.run(
        [&] { return all_reduce(op, replica_id() == 0 ? nest(1, 2, 3) : nest(10, 4, 5)); });
  };
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(reduce(ReduceOp::Sum)[r].at("a")[0].to<float>(), 11);
    EXPECT_EQ(reduce(ReduceOp::Sum)[r].at("b")[1].to<float>(), 8);
    EXPECT_EQ(reduce(ReduceOp::Mean)[r].at("a")[0].to<float>(), 5.5);
    EXPECT_EQ(reduce(ReduceOp::Mean)[r].at("b")[0].to<float>(), 3);
  }
}

TEST_P(AllReduce, TakesIntegersAndMixedDtypesInOneCall) {
  const auto result = two_.run([] {
    const int32_t own = replica_id() + 1;
    return all_reduce(ReduceOp::Sum, std::vector<Tensor>{Tensor({own}), Tensor({own, own}),
                                                         Tensor({own * 0.5f}), Tensor(own * 1.0)});
  });
  EXPECT_EQ(result[1][0].dtype(), kInt32);
  EXPECT_EQ(result[1][0].to<int>(), 3);
  EXPECT_EQ(result[1][1].to_vector<int>(), (std::vector<int>{3, 3}));
  EXPECT_EQ(result[0][2].to<float>(), 1.5f);
  EXPECT_EQ(result[0][3].dtype(), kFloat64);
}

TEST_P(AllReduce, GivesAFloatingMeanOfIntegers) {
  const auto mean = two_.run([] { return all_reduce(ReduceOp::Mean, Tensor({replica_id() + 1})); });
  EXPECT_EQ(mean[1].dtype(), kFloat64);
  EXPECT_EQ(mean[1].to<double>(), 1.5);
}

TEST_P(AllReduce, TakesEverySize) {
  for (const int64_t size : {0, 1, 15, 1000, 4096, 5000, 300'001, 3'000'000}) {
    const auto result = three_.run([&] {
      return all_reduce(ReduceOp::Sum,
                        range(size, kFloat64) * static_cast<double>(replica_id() + 1));
    });
    const Tensor expected = range(size, kFloat64) * 6.0;
    for (size_t r = 0; r < 3; ++r) {
      ASSERT_EQ(result[r].to_vector<double>(), expected.to_vector<double>()) << size;
    }
  }
}

TEST_P(AllReduce, OfAFewKilobytesKeepsWhatItGaveBefore) {
  const auto results = two_.run([] {
    std::vector<Tensor> all;
    for (int i = 0; i < 20; ++i) {
      const Tensor own = fill({1024}, static_cast<float>(i * (replica_id() + 1)));
      all.push_back(all_reduce(ReduceOp::Sum, own));
    }
    return all;
  });
  for (size_t i = 0; i < 20; ++i) {
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(results[r][i].to_vector<float>(), std::vector<float>(1024, 3.f * i)) << i;
      EXPECT_EQ(results[r][i].device(), two_.extended().worker_devices()[r]);
    }
  }
}

// Where replicas share cores, the last one adds up a few kilobytes for all.
class MoreReplicasThanCores : public ::testing::Test {
 protected:
  static std::vector<std::string> devices() {
    std::vector<std::string> names;
    for (unsigned i = 0; i <= std::thread::hardware_concurrency(); ++i) {
      names.push_back("CPU:" + std::to_string(i));
    }
    return names;
  }
  MirroredStrategy strategy_{devices()};
};

TEST_F(MoreReplicasThanCores, KeepWhatAFewKilobytesGaveBefore) {
  const auto replicas = static_cast<float>(strategy_.num_replicas_in_sync());
  const auto results = strategy_.run([] {
    std::vector<Tensor> all;
    for (int i = 0; i < 20; ++i) {
      all.push_back(all_reduce(ReduceOp::Sum, fill({2048}, static_cast<float>(i + replica_id()))));
    }
    return all;
  });
  const float ids = replicas * (replicas - 1) / 2;
  for (size_t i = 0; i < 20; ++i) {
    for (size_t r = 0; r < results.size(); ++r) {
      const float sum = static_cast<float>(i) * replicas + ids;
      EXPECT_EQ(results[r][i].to_vector<float>(), std::vector<float>(2048, sum)) << i;
      EXPECT_EQ(results[r][i].device(), strategy_.extended().worker_devices()[r]);
    }
  }
}

TEST_F(MoreReplicasThanCores, AreToldOfAFewKilobytesOfOtherShapes) {
  const auto step = [] { return all_reduce(ReduceOp::Sum, zeros({1024 + replica_id()})); };
  EXPECT_ERROR(Code::InvalidArgument, "", strategy_.run(step));
}

TEST_P(AllReduce, TakesViewsThatAreNotContiguous) {
  const auto result = two_.run([] {
    const Tensor matrix = reshape(range(6, kFloat32), {2, 3}) + static_cast<float>(replica_id());
    return all_reduce(ReduceOp::Sum, transpose(matrix));
  });
  EXPECT_EQ(result[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(numbers(result)[1], (std::vector<double>{1, 7, 3, 9, 5, 11}));
}

TEST_P(AllReduce, KeepsTheResultsOfEarlierCalls) {
  const auto results = two_.run([] {
    std::vector<Tensor> all;
    for (int i = 0; i < 20; ++i) all.push_back(all_reduce(ReduceOp::Sum, Tensor({i * 1.f, 1.f})));
    return all;
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(results[0][i].to_vector<float>(), (std::vector<float>{2.f * i, 2}));
    EXPECT_EQ(results[1][i].to_vector<float>(), (std::vector<float>{2.f * i, 2}));
  }
}

TEST_P(AllReduce, SumsInTheOrderOfTheReplicas) {
  const std::vector<float> values{1e8f, 1.f, -1e8f};
  const auto sum = [&] {
    return three_.run([&] { return all_reduce(ReduceOp::Sum, Tensor({values[replica_id()]})); });
  };
  const Numbers first = numbers(sum());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(numbers(sum()), first);
}

TEST_P(AllReduce, OfAVariableTakesTheOwnCopy) {
  const Variable v = two_.create([] {
    return Variable(1.f, {.synchronization = VariableSynchronization::OnRead,
                          .aggregation = VariableAggregation::Sum});
  });
  const auto sum = two_.run(
      [&](Variable own) {
        own.assign(Tensor(replica_id() + 2.f));
        return all_reduce(ReduceOp::Sum, own);
      },
      v);
  EXPECT_EQ(numbers(sum), (Numbers{{5}, {5}}));
}

TEST_P(AllReduce, JoinsRows) {
  const auto result = two_.run([] {
    const IndexedSlices own =
        replica_id() == 0
            ? IndexedSlices{Tensor({{8.f, 0.f}}), Tensor({int64_t{2}}), {3, 2}}
            : IndexedSlices{
                  Tensor({{1.f, 1.f}, {2.f, 4.f}}), Tensor({int64_t{0}, int64_t{2}}), {3, 2}};
    return all_reduce(ReduceOp::Mean, own);
  });
  EXPECT_EQ(result[1].indices.to_vector<int64_t>(), (std::vector<int64_t>{2, 0, 2}));
  EXPECT_EQ(result[1].values.to_vector<float>(), (std::vector<float>{4, 0, .5, .5, 1, 2}));
}

TEST_P(AllReduce, MakesRowsOfADenseValueThatMeetsRows) {
  const auto result = two_.run([] {
    const Gradient own =
        replica_id() == 0 ? Gradient(Tensor({{1.f}, {2.f}}))
                          : Gradient(IndexedSlices{Tensor({{5.f}}), Tensor({int64_t{1}}), {2, 1}});
    return all_reduce(ReduceOp::Sum, own);
  });
  EXPECT_TRUE(result[0].is_sparse());
  EXPECT_EQ(result[1].dense().to_vector<float>(), (std::vector<float>{1, 7}));
}

// d(c * all_reduce(x)) / dx of each replica.
PerReplica<Tensor> gradient_of(Strategy& strategy, ReduceOp op, const std::vector<float>& c,
                               const std::vector<float>& x) {
  return strategy.run([&] {
    const auto own = static_cast<size_t>(replica_id());
    const Tensor input({x[own]});
    GradientTape tape;
    tape.watch(input);
    const Tensor y = all_reduce(op, input) * c[own];
    return tape.gradient(y, input).dense();
  });
}

TEST_P(AllReduce, HasTheSameReductionAsItsGradient) {
  EXPECT_EQ(numbers(gradient_of(two_, ReduceOp::Sum, {2, 5}, {1, 1})), (Numbers{{7}, {7}}));
  EXPECT_EQ(numbers(gradient_of(two_, ReduceOp::Mean, {2, 5}, {1, 1})), (Numbers{{3.5}, {3.5}}));
}

TEST_P(AllReduce, SendsTheGradientOfAnExtremeToThoseWhoHoldIt) {
  EXPECT_EQ(numbers(gradient_of(three_, ReduceOp::Max, {1, 2, 4}, {3, 9, 5})),
            (Numbers{{0}, {7}, {0}}));
  EXPECT_EQ(numbers(gradient_of(three_, ReduceOp::Min, {1, 2, 5}, {3, 9, 3})),
            (Numbers{{4}, {0}, {4}}));
}

TEST_P(AllReduce, KnowsTheGradientOfAProduct) {
  EXPECT_EQ(numbers(gradient_of(three_, ReduceOp::Product, {1, 1, 1}, {2, 3, 5})),
            (Numbers{{45}, {30}, {18}}));
  EXPECT_EQ(numbers(gradient_of(three_, ReduceOp::Product, {1, 1, 1}, {0, 3, 5})),
            (Numbers{{45}, {0}, {0}}));
}

TEST_P(AllReduce, HasSecondDerivatives) {
  const auto second = two_.run([] {
    const Tensor x({replica_id() + 2.f});
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Tensor y = square(all_reduce(ReduceOp::Sum, x));
    const Tensor slope = inner.gradient(y, x);
    return outer.gradient(slope, x).dense();
  });
  // y = s^2 on both; the slope is 4 s; its derivative 4, from both replicas.
  EXPECT_EQ(numbers(second), (Numbers{{8}, {8}}));
}

TEST_P(AllReduce, OfOneReplicaIsTheValueItself) {
  MirroredStrategy one({"CPU:0"}, {.cross_device_ops = GetParam().ops});
  const auto mean = one.run([] { return all_reduce(ReduceOp::Mean, Tensor({3})); });
  EXPECT_EQ(mean[0].dtype(), kInt32);
  EXPECT_EQ(get_replica_context()->all_reduce(ReduceOp::Sum, Tensor({4.f})).to<float>(), 4);
}

TEST_P(AllReduce, NamesReplicasAndShapesThatDiffer) {
  EXPECT_ERROR(Code::InvalidArgument,
               "shapes differ: float32 (2,) on replica 0, float32 (3,) on replica 1",
               two_.run([] { return all_reduce(ReduceOp::Sum, zeros({replica_id() + 2})); }));
  EXPECT_ERROR(Code::InvalidArgument,
               "dtypes differ: float32 (2,) on replica 0, int32 (2,) on replica 1", two_.run([] {
                 return all_reduce(ReduceOp::Sum,
                                   zeros({2}, replica_id() == 0 ? kFloat32 : kInt32));
               }));
}

TEST_P(AllReduce, NamesReplicasAndCallsThatDiffer) {
  EXPECT_ERROR(Code::FailedPrecondition,
               "replica 0 calls all_reduce(Sum, float32 (1,)) at ways_of_reducing.h:18, replica 1 "
               "calls all_reduce(Mean, float32 (1,)) at ways_of_reducing.h:18",
               two_.run([] {
                 return all_reduce(replica_id() == 0 ? ReduceOp::Sum : ReduceOp::Mean,
                                   Tensor({1.f}));
               }));
  EXPECT_ERROR(Code::FailedPrecondition, "replica 0 calls", two_.run([] {
    return all_reduce(ReduceOp::Sum, std::vector<Tensor>(replica_id() + 1, Tensor({1.f})));
  }));
  EXPECT_ERROR(Code::FailedPrecondition, "all_gather", two_.run([] {
    return replica_id() == 0 ? all_reduce(ReduceOp::Sum, Tensor({1.f}))
                             : all_gather(Tensor({1.f}), 0);
  }));
}

TEST_P(AllReduce, EndsWhenAReplicaNeverComes) {
  EXPECT_ERROR(Code::FailedPrecondition, "ended", two_.run([] {
    if (replica_id() == 1) return Tensor({0.f});
    return all_reduce(ReduceOp::Sum, Tensor({1.f}));
  }));
  EXPECT_ERROR(Code::DataLoss, "gone", two_.run([] {
    if (replica_id() == 1) throw Error(Code::DataLoss, "gone");
    return all_reduce(ReduceOp::Sum, Tensor({1.f}));
  }));
}

TEST_P(AllReduce, EndsWhenAReplicaIsLaterThanItsTimeout) {
  std::promise<void> too_late;
  std::shared_future<void> gone = too_late.get_future().share();
  const Status status = error_of([&] {
    two_.run([&] {
      if (replica_id() == 1) gone.wait();
      const Status own = error_of([] {
        all_reduce(ReduceOp::Sum, Tensor({1.f}), {.timeout = std::chrono::milliseconds(10)});
      });
      if (replica_id() == 0) too_late.set_value();
      throw_if_error(own);
    });
  });
  EXPECT_EQ(status.code, Code::DeadlineExceeded) << status;
  EXPECT_NE(status.message.find("[all_reduce] replica 0 has waited 0.01 s for replicas 1"),
            std::string::npos)
      << status;
}

TEST_P(AllReduce, WorksAgainAfterAFailure) {
  EXPECT_ANY_THROW(two_.run([] { return all_reduce(ReduceOp::Sum, zeros({replica_id() + 1})); }));
  EXPECT_EQ(numbers(two_.run([] { return all_reduce(ReduceOp::Sum, Tensor({1.f})); })),
            (Numbers{{2}, {2}}));
}

TEST_P(AllReduce, ChecksItsOptions) {
  EXPECT_ERROR(Code::InvalidArgument, "bytes_per_pack", two_.run([] {
    return all_reduce(ReduceOp::Sum, Tensor({1.f}), {.bytes_per_pack = -1});
  }));
}

TEST_P(AllReduce, RefusesWhatIsNoNumber) {
  EXPECT_ERROR(Code::InvalidArgument, "bool",
               two_.run([] { return all_reduce(ReduceOp::Sum, Tensor({true})); }));
  EXPECT_ERROR(Code::InvalidArgument, "string",
               two_.run([] { return all_reduce(ReduceOp::Sum, Tensor("a")); }));
}

TEST(DirectReplicas, ShareTheMemoryOfALargeResult) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto sum = strategy.run([] { return all_reduce(ReduceOp::Sum, ones({100'000})); });
  EXPECT_TRUE(internal::same_memory(sum[0], sum[1]));
}

TEST(DirectReplicas, UseMemoryAgainThatNobodyHolds) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  for (const int64_t size : {1000, 100'000}) {
    const auto sum = [&] {
      return strategy.run([&] { return all_reduce(ReduceOp::Sum, ones({size})); });
    };
    const auto address = [&] { return internal::element_bytes(sum()[1]); };
    const std::byte* first = address();
    EXPECT_EQ(address(), first);
    const auto held = sum();
    EXPECT_NE(address(), first);
    EXPECT_EQ(held[1].to_vector<float>(), std::vector<float>(size, 2));
  }
}

// The target of each replica depends on another one of the two results.
TEST_P(AllReduce, HasGradientsWhereReplicasUseDifferentResults) {
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Product}) {
    const auto gradients = two_.run([&] {
      const bool first = replica_id() == 0;
      const std::vector<Tensor> own{Tensor(first ? 3.f : 2.f), Tensor(first ? 5.f : 7.f)};
      GradientTape tape;
      for (const Tensor& each : own) tape.watch(each);
      const std::vector<Tensor> results = all_reduce(op, own);
      const Gradients found = tape.gradient(first ? results[0] * 10.f : results[1], own);
      return std::vector<Tensor>{found[0].dense(), found[1].dense()};
    });
    const std::map<ReduceOp, std::vector<float>> expected{{ReduceOp::Sum, {10, 1, 10, 1}},
                                                          {ReduceOp::Mean, {5, .5, 5, .5}},
                                                          {ReduceOp::Max, {10, 0, 0, 1}},
                                                          {ReduceOp::Product, {20, 7, 30, 5}}};
    std::vector<float> found;
    for (size_t r = 0; r < 2; ++r) {
      for (const Tensor& each : gradients[r]) found.push_back(each.to<float>());
    }
    EXPECT_EQ(found, expected.at(op)) << to_string(op);
  }
}

}  // namespace
}  // namespace cohort
