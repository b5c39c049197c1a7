// Reductions where something is empty, missing, odd in number or mixed.

#include <gtest/gtest.h>

#include <cmath>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/replica_values.h"

namespace cohort {
namespace {

using Doubles = std::vector<double>;

class OfReplicas : public ::testing::TestWithParam<int> {
 protected:
  OfReplicas() : strategy_(names(GetParam())) {}
  static std::vector<std::string> names(int count) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) all.push_back("CPU:" + std::to_string(i));
    return all;
  }
  // What `f` gives in the last replica.
  template <typename F>
  auto last(const F& f) {
    const auto all = strategy_.run(f);
    return all[all.size() - 1];
  }
  double sum_of_ids() const { return GetParam() * (GetParam() - 1) / 2.0; }

  MirroredStrategy strategy_;
};
INSTANTIATE_TEST_SUITE_P(Counts, OfReplicas, ::testing::Values(1, 2, 3, 5));

TEST_P(OfReplicas, AllReduceTakesNoLeavesAtAll) {
  EXPECT_TRUE(last([] {
                return get_replica_context()->all_reduce(ReduceOp::Sum, std::vector<Tensor>{});
              }).empty());
}

TEST_P(OfReplicas, AllReduceTakesEmptyTensorsAmongOthers) {
  const auto reduced = last([] {
    const std::vector<Tensor> own{zeros({0}), ones({2}), zeros({3, 0, 2}, kInt32)};
    return get_replica_context()->all_reduce(ReduceOp::Sum, own);
  });
  EXPECT_EQ(reduced[0].shape(), Shape({0}));
  EXPECT_EQ(reduced[1].to_vector<double>(), Doubles(2, GetParam()));
  EXPECT_EQ(reduced[2].shape(), Shape({3, 0, 2}));
}

TEST_P(OfReplicas, AllReduceTakesEveryNumber) {
  for (const DType dtype :
       {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kUInt8, kInt16, kInt32, kInt64}) {
    const Tensor sum = last([&] {
      return get_replica_context()->all_reduce(ReduceOp::Sum, cast(Tensor(replica_id()), dtype));
    });
    EXPECT_EQ(sum.dtype(), dtype);
    EXPECT_EQ(cast(sum, kFloat64).to<double>(), sum_of_ids()) << to_string(dtype);
  }
}

TEST_P(OfReplicas, AllReduceTakesPlainNumbers) {
  EXPECT_EQ(last([] { return get_replica_context()->all_reduce(ReduceOp::Sum, 2.5); }).to<double>(),
            2.5 * GetParam());
}

// The rows of replica r: r of them, all of row 1.
IndexedSlices rows_of_replica() {
  const int64_t count = replica_id();
  return {fill({count, 2}, Tensor(1.f)), fill({count}, cast(Tensor(1), kInt64)), Shape{3, 2}};
}

TEST_P(OfReplicas, AllReduceJoinsAnyNumberOfRows) {
  const auto joined =
      last([] { return get_replica_context()->all_reduce(ReduceOp::Sum, rows_of_replica()); });
  EXPECT_EQ(joined.indices.size(), static_cast<int64_t>(sum_of_ids()));
  const auto sum = static_cast<float>(sum_of_ids());
  EXPECT_EQ(joined.to_dense().to_vector<float>(), (std::vector<float>{0, 0, sum, sum, 0, 0}));
}

// Undefined in replica 0, rows in the others, or dense, or nothing anywhere.
TEST_P(OfReplicas, OptimizersTakeGradientsThatSomeReplicasLack) {
  const auto scope = strategy_.scope();
  const Variable table(zeros({3, 2}), {.name = "table"});
  const Variable dense(zeros({2}), {.name = "dense"});
  const Variable both(zeros({3, 2}), {.name = "both"});
  const Variable everywhere(0.f, {.name = "everywhere"});
  optim::Sgd optimizer({.learning_rate = 1.0});
  strategy_.run([&] {
    const bool first = replica_id() == 0;
    const Gradients own{first ? Gradient() : Gradient(rows_of_replica()),
                        first ? Gradient() : Gradient(ones({2})),
                        first ? Gradient(ones({3, 2})) : Gradient(rows_of_replica()), Tensor(1.f)};
    optimizer.apply_gradients(own, {table, dense, both, everywhere});
  });
  const double sum = -sum_of_ids();
  EXPECT_EQ(Tensor(table).to_vector<double>(), (Doubles{0, 0, sum, sum, 0, 0}));
  EXPECT_EQ(Tensor(dense).to_vector<double>(), Doubles(2, 1 - GetParam()));
  EXPECT_EQ(Tensor(both).to_vector<double>(), (Doubles{-1, -1, sum - 1, sum - 1, -1, -1}));
  EXPECT_EQ(Tensor(everywhere).to<double>(), -GetParam());
}

TEST_P(OfReplicas, AMeanAlongAnAxisCountsEveryKindOfNumber) {
  for (const DType dtype : {kUInt8, kInt32, kInt64, kFloat16, kFloat32, kFloat64}) {
    const auto parts = strategy_.run([&] {
      return fill({replica_id() + 1, 2}, cast(Tensor(100), dtype));
    });
    const Tensor mean = strategy_.reduce(ReduceOp::Mean, parts, {0, 1});
    EXPECT_TRUE(is_floating(mean.dtype())) << to_string(dtype);
    EXPECT_EQ(cast(mean, kFloat64).to<double>(), 100) << to_string(dtype);
  }
}

TEST_P(OfReplicas, AxesMustExistAndDiffer) {
  const auto parts = strategy_.run([] { return ones({2, 3}); });
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max}) {
    EXPECT_ERROR(Code::InvalidArgument, "2", strategy_.reduce(op, parts, 2));
    EXPECT_ERROR(Code::InvalidArgument, "-3", strategy_.reduce(op, parts, -3));
    EXPECT_ERROR(Code::InvalidArgument, "", strategy_.reduce(op, parts, {0, -2}));
  }
  EXPECT_EQ(strategy_.reduce(ReduceOp::Mean, parts, {-1, 0}).to<double>(), 1);
}

TEST_P(OfReplicas, MeansOfNothingAreNotANumber) {
  const auto parts = strategy_.run([] { return zeros({0}); });
  EXPECT_EQ(strategy_.reduce(ReduceOp::Sum, parts, 0).to<double>(), 0);
  EXPECT_TRUE(std::isnan(strategy_.reduce(ReduceOp::Mean, parts, 0).to<double>()));
}

TEST_P(OfReplicas, GatherTakesEmptyAndTextParts) {
  const auto parts = strategy_.run([] { return fill({replica_id(), 2}, Tensor(replica_id())); });
  EXPECT_EQ(strategy_.gather(parts, 0).shape(), Shape({static_cast<int64_t>(sum_of_ids()), 2}));
  const auto flags = strategy_.run([] { return Tensor({replica_id() > 0}); });
  EXPECT_EQ(strategy_.gather(flags, 0).size(), GetParam());
  const auto words = strategy_.run([] { return Tensor({std::to_string(replica_id())}); });
  EXPECT_EQ(strategy_.gather(words, 0).to_vector<std::string>().back(),
            std::to_string(GetParam() - 1));
}

TEST_P(OfReplicas, GatheringNeedsAnAxisOfTheValue) {
  for (const int axis : {-1, 2}) {
    EXPECT_ERROR(Code::InvalidArgument, "axis", strategy_.run([&] {
      get_replica_context()->all_gather(ones({1, 1}), axis);
    }));
  }
  EXPECT_ERROR(Code::InvalidArgument, "scalar",
               strategy_.run([&] { get_replica_context()->all_gather(Tensor(1.f), 0); }));
}

TEST_P(OfReplicas, ABatchOfNoRequestsIsEmpty) {
  EXPECT_TRUE(strategy_.extended().batch_reduce_to(ReduceOp::Sum, {}).empty());
}

TEST_P(OfReplicas, ReduceToTheValueItselfIsOnEveryDevice) {
  const auto ids = strategy_.run([] { return Tensor({replica_id() * 1.f}); });
  const DistributedValue all = strategy_.extended().reduce_to(ReduceOp::Sum, ids, ids);
  ASSERT_EQ(all.size(), static_cast<size_t>(GetParam()));
  for (const Gradient& part : all.components()) {
    EXPECT_EQ(part.dense().to<double>(), sum_of_ids());
  }
}

}  // namespace
}  // namespace cohort
