#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Kind = DistributedValue::Kind;

PerReplica<Tensor> per_replica(const std::vector<Tensor>& values) {
  return PerReplica<Tensor>({values.begin(), values.end()});
}

std::string text(const Tensor& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

const std::vector<std::string> kFour{"CPU:0", "CPU:1", "CPU:2", "CPU:3"};

class Reduce : public ::testing::Test {
 protected:
  Tensor of(ReduceOp op, const std::vector<Tensor>& values, const ReduceAxes& axes = {}) {
    const std::vector<std::string> devices(kFour.begin(), kFour.begin() + values.size());
    MirroredStrategy strategy(devices);
    return strategy.reduce(op, per_replica(values), axes);
  }

  MirroredStrategy two_{"CPU:0", "CPU:1"};
};

TEST_F(Reduce, GoesOverTheReplicas) {
  const std::vector<Tensor> values{Tensor(1.f), Tensor(2.f), Tensor(3.f), Tensor(6.f)};
  EXPECT_EQ(of(ReduceOp::Sum, values).to<float>(), 12.f);
  EXPECT_EQ(of(ReduceOp::Sum, values, std::nullopt).to<float>(), 12.f);
  EXPECT_EQ(of(ReduceOp::Mean, values).to<float>(), 3.f);
  EXPECT_EQ(of(ReduceOp::Min, values).to<float>(), 1.f);
  EXPECT_EQ(of(ReduceOp::Max, values).to<float>(), 6.f);
  EXPECT_EQ(of(ReduceOp::Product, values).to<float>(), 36.f);
  EXPECT_EQ(of(ReduceOp::Mean, {Tensor(1), Tensor(2)}).to<double>(), 1.5);
}

TEST_F(Reduce, TakesTheNameOfTheReduction) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto ids = strategy.run([] { return get_replica_context()->replica_id_in_sync_group(); });
  EXPECT_EQ(strategy.reduce("SUM", ids).to<int>(), 1);
  EXPECT_EQ(strategy.reduce("mean", ids).to<double>(), 0.5);
  EXPECT_ERROR(Code::InvalidArgument, "median", strategy.reduce("median", ids));
  const auto all = [](std::string_view op) {
    return [op] { return get_replica_context()->all_reduce(op, Tensor({2.f})).to<float>(); };
  };
  EXPECT_EQ(strategy.run(all("Product"))[1], 4.f);
  EXPECT_ERROR(Code::InvalidArgument, "median", strategy.run(all("median")));
  EXPECT_EQ(
      strategy.reduce(ReduceOp::Mean, Tensor({{1.f, 2.f}}), std::vector<int>{0, 1}).to<float>(),
      1.5f);
}

TEST_F(Reduce, AlongAnAxisWeighsReplicasByTheirLengths) {
  const std::vector<Tensor> uneven{Tensor({2.f, 4.f}), Tensor({6.f}), zeros({0})};
  EXPECT_EQ(of(ReduceOp::Sum, uneven, 0).to<float>(), 12.f);
  EXPECT_EQ(of(ReduceOp::Mean, uneven, 0).to<float>(), 4.f);
  EXPECT_EQ(of(ReduceOp::Max, uneven, 0).to<float>(), 6.f);
  EXPECT_EQ(of(ReduceOp::Product, uneven, 0).to<float>(), 48.f);
  const std::vector<Tensor> empty{zeros({0}), zeros({0})};
  EXPECT_EQ(of(ReduceOp::Sum, empty, 0).to<float>(), 0.f);
  EXPECT_TRUE(std::isnan(of(ReduceOp::Mean, empty, 0).to<float>()));
  EXPECT_ERROR(Code::InvalidArgument, "empty", of(ReduceOp::Min, empty, 0));
}

TEST_F(Reduce, AlongAxesOfMatrices) {
  const std::vector<Tensor> rows{Tensor({{1.f, 2.f}, {3.f, 4.f}}), Tensor({{5.f, 6.f}})};
  EXPECT_EQ(text(of(ReduceOp::Sum, rows, 0)), "Tensor([ 9. 12.], shape=(2,), dtype=float32)");
  EXPECT_EQ(text(of(ReduceOp::Mean, rows, 0)), "Tensor([3. 4.], shape=(2,), dtype=float32)");
  EXPECT_EQ(text(of(ReduceOp::Mean, rows, {0, 1})), "Tensor(3.5, shape=(), dtype=float32)");
  EXPECT_EQ(text(of(ReduceOp::Mean, rows, {-1, -2})), "Tensor(3.5, shape=(), dtype=float32)");
  EXPECT_EQ(text(of(ReduceOp::Mean, rows, -2)), "Tensor([3. 4.], shape=(2,), dtype=float32)");
  EXPECT_ERROR(Code::InvalidArgument, "(2,)", of(ReduceOp::Sum, rows, -1));
  EXPECT_ERROR(Code::InvalidArgument, "2", of(ReduceOp::Sum, rows, 2));
}

TEST_F(Reduce, MeansOfIntegersAreFloating) {
  EXPECT_EQ(text(of(ReduceOp::Mean, {Tensor({1, 2}), Tensor({4})}, 0)),
            "Tensor(2.33333333, shape=(), dtype=float64)");
  const Tensor many = cast(fill({200}, 100), kInt8);  // whose sum and number int8 cannot hold
  EXPECT_EQ(text(of(ReduceOp::Mean, {many, many}, 0)), "Tensor(100., shape=(), dtype=float32)");
}

TEST_F(Reduce, ShapesMustAgree) {
  EXPECT_ERROR(Code::InvalidArgument, "(2,)",
               of(ReduceOp::Sum, {Tensor({1.f}), Tensor({1.f, 2.f})}));
}

TEST_F(Reduce, OfWhatIsTheSameForAllReplicas) {
  const Tensor five({5.f});
  EXPECT_EQ(two_.reduce(ReduceOp::Mean, five).to<float>(), 5.f);
  EXPECT_EQ(two_.reduce(ReduceOp::Mean, 5).to<int>(), 5);
  EXPECT_ERROR(Code::InvalidArgument, "same for all", two_.reduce(ReduceOp::Sum, five));
  EXPECT_ERROR(Code::InvalidArgument, "same for all", two_.reduce(ReduceOp::Sum, 5));
  EXPECT_ERROR(Code::InvalidArgument, "same for all", two_.reduce(ReduceOp::Sum, zeros({1})));
  EXPECT_EQ(two_.reduce(ReduceOp::Sum, 0).to<int>(), 0);
  EXPECT_ERROR(Code::InvalidArgument, "same for all", two_.reduce(ReduceOp::Sum, Tensor(0)));
  EXPECT_EQ(two_.reduce(ReduceOp::Mean, Tensor({1.f, 3.f}), 0).to<float>(), 2.f);
  EXPECT_ERROR(Code::InvalidArgument, "same for all", two_.reduce(ReduceOp::Sum, five, 0));
  MirroredStrategy one({"CPU:0"});
  EXPECT_EQ(one.reduce(ReduceOp::Sum, five).to<float>(), 5.f);
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  EXPECT_EQ(central.reduce(ReduceOp::Mean, five).to<float>(), 5.f);
  EXPECT_ERROR(Code::InvalidArgument, "same for all", central.reduce(ReduceOp::Sum, five));
}

TEST_F(Reduce, OfMirroredValuesAndVariables) {
  const Variable variable = two_.create([] { return Variable({3.f, 5.f}); });
  EXPECT_EQ(text(two_.reduce(ReduceOp::Mean, variable)),
            "Tensor([3. 5.], shape=(2,), dtype=float32)");
  EXPECT_EQ(two_.reduce(ReduceOp::Mean, variable, 0).to<float>(), 4.f);
  EXPECT_ERROR(Code::InvalidArgument, "same for all", two_.reduce(ReduceOp::Sum, variable));
  const DistributedValue mirrored(Kind::Mirrored, {Tensor({3.f}), Tensor({3.f})});
  EXPECT_EQ(two_.reduce(ReduceOp::Mean, mirrored).to<float>(), 3.f);
  EXPECT_ERROR(Code::InvalidArgument, "same for all", two_.reduce(ReduceOp::Sum, mirrored));
}

TEST_F(Reduce, OfStructuresGoesLeafByLeaf) {
  const auto results = two_.run([] {
    const auto id = static_cast<float>(get_replica_context()->replica_id_in_sync_group());
    return std::map<std::string, Tensor>{{"a", Tensor(1.f + id)}, {"b", Tensor(10.f * id)}};
  });
  const std::map<std::string, Tensor> sums = two_.reduce(ReduceOp::Sum, results);
  EXPECT_EQ(sums.at("a").to<float>(), 3.f);
  EXPECT_EQ(sums.at("b").to<float>(), 10.f);
  const auto both = two_.reduce(ReduceOp::Mean, std::pair(per_replica({1.f, 3.f}), 7));
  EXPECT_EQ(both.first.to<float>(), 2.f);
  EXPECT_EQ(both.second.to<int>(), 7);
}

TEST_F(Reduce, CountsEachReplicaEvenWhenAllReturnedTheSame) {
  const auto ones = two_.run([] { return 1; });
  EXPECT_TRUE(ones.collapsed());
  EXPECT_EQ(two_.reduce(ReduceOp::Sum, ones).to<int>(), 2);
}

TEST_F(Reduce, GivesItsResultOnTheCurrentDevice) {
  const auto on = device("CPU:1");
  EXPECT_EQ(two_.reduce(ReduceOp::Sum, per_replica({1.f, 3.f})).device(),
            "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(two_.gather(per_replica({Tensor({1.f}), Tensor({3.f})}), 0).device(),
            "/job:localhost/replica:0/task:0/device:CPU:1");
}

TEST(ReduceWithOneReplica, ReturnsTheValue) {
  OneDeviceStrategy one("CPU:0");
  for (Strategy* strategy : {static_cast<Strategy*>(&one), &get_strategy()}) {
    const Tensor value({1.f, 3.f});
    EXPECT_EQ(strategy->reduce(ReduceOp::Sum, value).shape(), Shape{2});
    EXPECT_EQ(strategy->reduce(ReduceOp::Sum, value, 0).to<float>(), 4.f);
    EXPECT_EQ(strategy->reduce(ReduceOp::Mean, value, 0).to<float>(), 2.f);
    EXPECT_EQ(strategy->reduce(ReduceOp::Mean, strategy->run([&] { return value; }), 0).to<float>(),
              2.f);
    EXPECT_EQ(strategy->gather(value, 0).shape(), Shape{2});
  }
}

TEST_F(Reduce, GathersAlongAnAxis) {
  EXPECT_EQ(two_.gather(per_replica({Tensor({7.f}), Tensor({8.f, 9.f})}), 0).to_vector<int>(),
            (std::vector<int>{7, 8, 9}));
  const PerReplica<Tensor> blocks = per_replica({zeros({2, 1, 4}), zeros({2, 3, 4})});
  EXPECT_EQ(two_.gather(blocks, 1).shape(), (Shape{2, 4, 4}));
  EXPECT_ERROR(Code::InvalidArgument, "", two_.gather(blocks, 0));
  EXPECT_ERROR(Code::InvalidArgument, "", two_.gather(blocks, 3));
  EXPECT_ERROR(Code::InvalidArgument, "", two_.gather(blocks, -1));
  EXPECT_ERROR(Code::InvalidArgument, "", two_.gather(per_replica({Tensor(1.f), Tensor(2.f)}), 0));
  const Variable variable = two_.create([] { return Variable({{1}, {2}}); });
  EXPECT_EQ(two_.gather(variable, 0).to_vector<int>(), (std::vector<int>{1, 2, 1, 2}));
  EXPECT_EQ(two_.gather(Tensor({1.f, 2.f}), 0).shape(), Shape{2});
  const IndexedSlices rows{Tensor({{1.f}}), Tensor({int64_t{0}}), Shape{3, 1}};
  const DistributedValue sparse(Kind::PerReplica, {rows, rows});
  EXPECT_ERROR(Code::Unimplemented, "", two_.gather(sparse, 0));
  EXPECT_ERROR(Code::Unimplemented, "", two_.gather(DistributedValue(rows), 0));
  EXPECT_ERROR(Code::Unimplemented, "",
               OneDeviceStrategy("CPU:0").gather(DistributedValue(rows), 0));
}

// --- batches

TEST_F(Reduce, BatchesComeBackInOrderWhateverIsInThem) {
  const std::vector<ReduceRequest> requests{
      {per_replica({Tensor({1.f}), Tensor({2.f})}), "CPU:0"},
      {per_replica({Tensor({3}), Tensor({4})}), Destinations::of_devices({"CPU:0", "CPU:1"})},
      {per_replica({Tensor({5}), Tensor({6})}), "CPU:1"}};
  const auto sums = two_.extended().batch_reduce_to(ReduceOp::Sum, requests);
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0][0].dense().to<float>(), 3.f);
  EXPECT_EQ(sums[1].size(), 2u);
  EXPECT_EQ(sums[1][1].dense().to<int>(), 7);
  EXPECT_EQ(sums[2][0].dense().to<int>(), 11);
  EXPECT_EQ(sums[2].devices(), std::vector<std::string>{canonical_device("CPU:1")});
}

TEST_F(Reduce, BatchesRefuseTheSumOfAMirroredValue) {
  const DistributedValue same(Kind::Mirrored, {Tensor({3.f}), Tensor({3.f})});
  const std::vector<ReduceRequest> requests{{per_replica({Tensor({1.f}), Tensor({2.f})}), "CPU:0"},
                                            {same, "CPU:0"}};
  EXPECT_ERROR(Code::InvalidArgument, "the same for all of them",
               two_.extended().batch_reduce_to(ReduceOp::Sum, requests));
  const auto means = two_.extended().batch_reduce_to(ReduceOp::Mean, requests);
  EXPECT_EQ(means[0][0].dense().to<float>(), 1.5f);
  EXPECT_EQ(means[1][0].dense().to<float>(), 3.f);
}

// --- update

TEST_F(Reduce, UpdateGivesEachCopyItsPart) {
  Variable variable = two_.create([] { return Variable(5.f); });
  two_.extended().update(
      variable, [](Variable copy, Tensor delta) { copy.assign_sub(delta); },
      per_replica({1.f, 2.f}));
  const std::vector<Variable> copies = two_.local_results(variable);
  EXPECT_EQ(copies.at(0).read_value().to<float>(), 4.f);
  EXPECT_EQ(copies.at(1).read_value().to<float>(), 3.f);
}

TEST_F(Reduce, UpdateReturnsWhatEachCopyGave) {
  Variable variable = two_.create([] { return Variable(5.f); });
  const DistributedValue made = two_.extended().update(
      variable, [](Variable copy, Tensor delta) { return copy.assign_sub(delta); },
      per_replica({1.f, 2.f}));
  const std::vector<Gradient> each = two_.local_results(made);
  ASSERT_EQ(each.size(), 2u);
  EXPECT_EQ(each[0].dense().to<float>(), 4.f);
  EXPECT_EQ(each[1].dense().to<float>(), 3.f);
  EXPECT_EQ(made.devices(), two_.extended().worker_devices());
}

TEST_F(Reduce, UpdateInAReplicaIsAMerge) {
  Variable variable = two_.create([] { return Variable(5.f); });
  std::atomic<int> calls{0};
  two_.run([&] {
    const auto id = static_cast<float>(get_replica_context()->replica_id_in_sync_group());
    two_.extended().update(
        variable,
        [&](Variable copy, Tensor delta) {
          ++calls;
          return copy.assign_add(delta);
        },
        Tensor(10.f * (id + 1)));
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(two_.local_results(variable).at(1).read_value().to<float>(), 25.f);
}

TEST_F(Reduce, UpdateRefusesVariablesWithoutCopies) {
  const Variable stranger(1.f);
  EXPECT_ERROR(Code::InvalidArgument, "not made in the scope",
               two_.extended().update(stranger, [](Variable) {}));
}

TEST_F(Reduce, UpdateOfOneCopyUsesTheFirstPart) {
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  Variable variable = central.create([] { return Variable(5.f); });
  central.extended().update(
      variable, [](Variable copy, Tensor delta) { copy.assign_sub(delta); },
      per_replica({1.f, 2.f}));
  EXPECT_EQ(variable.read_value().to<float>(), 4.f);
}

TEST_F(Reduce, UpdateNonSlotRunsOncePerDestination) {
  const auto both = per_replica({Tensor({1.f}), Tensor({2.f})});
  const DistributedValue parts = two_.run([] { return Tensor({1.f}); });
  const DistributedValue made = two_.extended().update_non_slot(
      parts, [](Tensor own) { return own * 10.f; }, both);
  EXPECT_EQ(made.devices(), two_.extended().worker_devices());
  EXPECT_EQ(made[1].dense().to<float>(), 20.f);
  EXPECT_EQ(two_.extended().non_slot_devices({}), two_.extended().worker_devices());
}

}  // namespace
}  // namespace cohort
