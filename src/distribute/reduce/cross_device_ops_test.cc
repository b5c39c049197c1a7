// One set of tests for every algorithm: all give the same.

#include "cohort/cross_device_ops.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>

#include "cohort/function.h"
#include "support/expect_error.h"
#include "support/spread_values.h"
#include "tensor/memory.h"

namespace cohort {
namespace {

using test::cpu;
using test::expect_mirrored;
using test::HostNccl;
using test::Kind;
using test::numbered;
using test::serial_sum;
using test::spread;
using test::use_stand_in;

struct Algorithm {
  std::string name;
  std::function<std::shared_ptr<CrossDeviceOps>()> make;
};
std::ostream& operator<<(std::ostream& out, const Algorithm& algorithm) {
  return out << algorithm.name;
}

template <typename Ops, typename... Args>
Algorithm algorithm(std::string name, Args... args) {
  return {std::move(name), [=] { return std::make_shared<Ops>(args...); }};
}

// Adds up in the order that the user likes, and counts how often it is asked.
class OwnOps : public CrossDeviceOps {
 public:
  std::string to_string() const override { return "OwnOps()"; }
  std::vector<ReduceOp> asked;

 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions&) override {
    asked.push_back(op);
    std::vector<std::vector<Tensor>> results;
    for (const ReduceRequest& request : requests) {
      Tensor total = request.value[0].dense();
      for (size_t k = 1; k < request.value.size(); ++k) {
        const Tensor next = request.value[k].dense();
        total = op == ReduceOp::Sum   ? total + next
                : op == ReduceOp::Min ? minimum(total, next)
                : op == ReduceOp::Max ? maximum(total, next)
                                      : total * next;
      }
      results.emplace_back();
      for (const std::string& device : request.destinations.devices()) {
        const DeviceScope on(device);
        results.back().push_back(identity(total));
      }
    }
    return results;
  }
};

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {
 protected:
  void SetUp() override {
    use_stand_in();
    ops_ = GetParam().make();
  }
  void TearDown() override { unsetenv("COHORT_NCCL_LIBRARY"); }

  std::shared_ptr<CrossDeviceOps> ops_;
};

INSTANTIATE_TEST_SUITE_P(
    CrossDeviceOps, EveryAlgorithm,
    ::testing::Values(algorithm<DirectAllReduce>("Direct"),
                      algorithm<ReductionToOneDevice>("OneDevice"),
                      algorithm<ReductionToOneDevice>("OneOtherDevice", "CPU:1"),
                      algorithm<HierarchicalCopyAllReduce>("HierarchicalUnpacked", 0),
                      algorithm<HierarchicalCopyAllReduce>("Hierarchical", 1),
                      algorithm<HierarchicalCopyAllReduce>("HierarchicalIn5", 5),
                      algorithm<NcclAllReduce>("NcclWithoutGpu"),
                      algorithm<HostNccl>("NcclUnpacked", 0), algorithm<HostNccl>("Nccl", 1),
                      algorithm<HostNccl>("NcclIn3", 3), algorithm<OwnOps>("Own")),
    [](const auto& instance) { return instance.param.name; });

TEST_P(EveryAlgorithm, SumsAnyNumberOfComponents) {
  for (const size_t count : {1, 2, 3, 4, 5, 7, 8}) {
    const DistributedValue value = numbered(count, {3, 5});
    expect_mirrored(ops_->reduce(ReduceOp::Sum, value, value), serial_sum(value), value.devices());
  }
}

TEST_P(EveryAlgorithm, TakesEveryLength) {
  for (const int64_t length : {0, 1, 2, 3, 15, 1000, 100'003}) {
    const DistributedValue value = numbered(3, {length}, kFloat64);
    expect_mirrored(ops_->reduce(ReduceOp::Sum, value, value), serial_sum(value), value.devices());
  }
}

TEST_P(EveryAlgorithm, TakesLargeTensors) {
  const DistributedValue value = numbered(2, {1 << 12, 700}, kFloat64);
  expect_mirrored(ops_->reduce(ReduceOp::Sum, value, value), serial_sum(value), value.devices());
}

TEST_P(EveryAlgorithm, TakesEveryNumber) {
  const bool stands_in = std::dynamic_pointer_cast<HostNccl>(ops_) != nullptr;
  for (const DType dtype :
       {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kInt16, kInt32, kInt64, kUInt8}) {
    if (stands_in && is_floating(dtype) && size_of(dtype) == 2) continue;
    const DistributedValue value =
        spread({cast(Tensor({1, 2, 3}), dtype), cast(Tensor({10, 20, 30}), dtype),
                cast(Tensor({4, 5, 6}), dtype)});
    expect_mirrored(ops_->reduce(ReduceOp::Sum, value, value), cast(Tensor({15, 27, 39}), dtype),
                    value.devices());
  }
}

TEST_P(EveryAlgorithm, DividesAMeanByTheNumberOfComponents) {
  const DistributedValue value =
      spread({Tensor({1.f, 2.f}), Tensor({3.f, 4.f}), Tensor({5.f, 12.f})});
  expect_mirrored(ops_->reduce(ReduceOp::Mean, value, value), Tensor({3.f, 6.f}), value.devices());
}

TEST_P(EveryAlgorithm, GivesAFloatingMeanOfIntegers) {
  const DistributedValue value = spread({Tensor({1, 2}), Tensor({2, 2})});
  expect_mirrored(ops_->reduce(ReduceOp::Mean, value, value), Tensor({1.5, 2.0}), value.devices());
}

TEST_P(EveryAlgorithm, KnowsMinMaxAndProduct) {
  const DistributedValue value =
      spread({Tensor({3.f, 2.f}), Tensor({1.f, 4.f}), Tensor({2.f, -1.f})});
  expect_mirrored(ops_->reduce(ReduceOp::Min, value, value), Tensor({1.f, -1.f}), value.devices());
  expect_mirrored(ops_->reduce(ReduceOp::Max, value, value), Tensor({3.f, 4.f}), value.devices());
  expect_mirrored(ops_->reduce(ReduceOp::Product, value, value), Tensor({6.f, -8.f}),
                  value.devices());
}

TEST_P(EveryAlgorithm, BringsTheResultToOtherDevices) {
  const DistributedValue value = numbered(3, {4});
  expect_mirrored(ops_->reduce(ReduceOp::Sum, value, "CPU:1"), serial_sum(value), {cpu(1)});
  internal::ensure_cpu_devices(5);
  const Destinations elsewhere = Destinations::of_devices({"CPU:4", "CPU:0"});
  expect_mirrored(ops_->reduce(ReduceOp::Sum, value, elsewhere), serial_sum(value),
                  {cpu(4), cpu(0)});
}

TEST_P(EveryAlgorithm, TakesAPlainTensorAsOneComponent) {
  const Tensor plain({7.f});
  expect_mirrored(ops_->reduce(ReduceOp::Sum, plain, "CPU:0"), plain, {cpu(0)});
  const DistributedValue two = numbered(2, {1});
  expect_mirrored(ops_->reduce(ReduceOp::Mean, plain, two), plain, two.devices());
}

TEST_P(EveryAlgorithm, CopiesOneComponentThatIsThereAlready) {
  const DistributedValue value = spread({Tensor({7})});
  const DistributedValue copy = ops_->reduce(ReduceOp::Mean, value, value);
  expect_mirrored(copy, Tensor({7}), {cpu(0)});
}

TEST_P(EveryAlgorithm, ReducesMixedBatchesInOrder) {
  const DistributedValue ints = numbered(2, {3}, kInt32);
  const DistributedValue more_ints = numbered(2, {2, 2}, kInt32);
  const DistributedValue floats = numbered(2, {5});
  const DistributedValue doubles = numbered(2, {}, kFloat64);
  const DistributedValue rows = spread(
      {IndexedSlices{Tensor({{8.f, 0.f}}), Tensor({int64_t{2}}), {3, 2}},
       IndexedSlices{Tensor({{1.f, 1.f}, {2.f, 4.f}}), Tensor({int64_t{0}, int64_t{2}}), {3, 2}}});
  const std::vector<ReduceRequest> requests{
      {ints, ints}, {floats, "CPU:0"}, {rows, rows}, {more_ints, more_ints}, {doubles, doubles}};
  const std::vector<DistributedValue> results = ops_->batch_reduce(ReduceOp::Sum, requests);
  ASSERT_EQ(results.size(), 5u);
  expect_mirrored(results[0], serial_sum(ints), ints.devices());
  expect_mirrored(results[1], serial_sum(floats), {cpu(0)});
  EXPECT_TRUE(results[2][1].is_sparse());
  expect_mirrored(results[3], serial_sum(more_ints), more_ints.devices());
  expect_mirrored(results[4], serial_sum(doubles), doubles.devices());
}

TEST_P(EveryAlgorithm, JoinsRowsAndKeepsDuplicates) {
  const DistributedValue value = spread(
      {IndexedSlices{Tensor({{8.f, 0.f}}), Tensor({int64_t{2}}), {3, 2}},
       IndexedSlices{Tensor({{1.f, 1.f}, {2.f, 4.f}}), Tensor({int64_t{0}, int64_t{2}}), {3, 2}}});
  const IndexedSlices sum = ops_->reduce(ReduceOp::Sum, value, value)[1].slices();
  EXPECT_EQ(sum.indices.to_vector<int64_t>(), (std::vector<int64_t>{2, 0, 2}));
  EXPECT_EQ(sum.values.to_vector<float>(), (std::vector<float>{8, 0, 1, 1, 2, 4}));
  EXPECT_EQ(sum.dense_shape, (Shape{3, 2}));
  EXPECT_EQ(sum.values.device(), cpu(1));
  const IndexedSlices mean = ops_->reduce(ReduceOp::Mean, value, value)[0].slices();
  EXPECT_EQ(mean.values.to_vector<float>(), (std::vector<float>{4, 0, .5, .5, 1, 2}));
}

TEST_P(EveryAlgorithm, MakesRowsOfDenseValuesThatMeetRows) {
  const DistributedValue value = spread(
      {Tensor({{1.f}, {2.f}}), IndexedSlices{Tensor({{5.f}}), Tensor({int64_t{1}}), {2, 1}}});
  const Gradient sum = ops_->reduce(ReduceOp::Sum, value, value)[0];
  ASSERT_TRUE(sum.is_sparse());
  EXPECT_EQ(sum.slices().indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(sum.dense().to_vector<float>(), (std::vector<float>{1, 7}));
}

TEST_P(EveryAlgorithm, WritesRowsOutForAMaximum) {
  const DistributedValue value = spread(
      {Tensor({{-1.f}, {2.f}}), IndexedSlices{Tensor({{5.f}}), Tensor({int64_t{1}}), {2, 1}}});
  const Gradient larger = ops_->reduce(ReduceOp::Max, value, value)[0];
  ASSERT_FALSE(larger.is_sparse());
  EXPECT_EQ(larger.dense().to_vector<float>(), (std::vector<float>{0, 5}));
}

TEST_P(EveryAlgorithm, GathersInOrder) {
  const DistributedValue value = spread({Tensor({7}), Tensor({8, 9})});
  expect_mirrored(ops_->gather(value, "CPU:1", 0), Tensor({7, 8, 9}), {cpu(1)});
  const DistributedValue planes = spread({zeros({2, 1, 4}), zeros({2, 3, 4}), zeros({2, 2, 4})});
  expect_mirrored(ops_->gather(planes, planes, 1), zeros({2, 6, 4}), planes.devices());
}

TEST_P(EveryAlgorithm, RefusesToGatherWhatDoesNotFit) {
  const DistributedValue planes = spread({zeros({2, 1, 4}), zeros({2, 3, 4}), zeros({2, 2, 4})});
  EXPECT_ERROR(Code::InvalidArgument,
               "float32 (2, 1, 4) on replica 0, float32 (2, 3, 4) on replica 1",
               ops_->gather(planes, "CPU:0", 0));
  EXPECT_ERROR(Code::InvalidArgument, "axis 3 is outside of 0 to 2",
               ops_->gather(planes, planes, 3));
  EXPECT_ERROR(Code::InvalidArgument, "axis -1", ops_->gather(planes, planes, -1));
  EXPECT_ERROR(Code::InvalidArgument, "scalar",
               ops_->gather(spread({Tensor(1.f), Tensor(2.f)}), "CPU:0", 0));
  const IndexedSlices rows{Tensor({{5.f}}), Tensor({int64_t{1}}), {2, 1}};
  EXPECT_ERROR(Code::Unimplemented, "rows of float32 (2, 1)",
               ops_->gather(spread({rows, rows}), "CPU:0", 0));
}

TEST_P(EveryAlgorithm, RefusesWhatDoesNotFitNamingBothReplicas) {
  EXPECT_ERROR(Code::InvalidArgument,
               "shapes differ: float32 (2,) on replica 0, float32 (3,) on replica 2",
               ops_->reduce(ReduceOp::Sum, spread({zeros({2}), zeros({2}), zeros({3})}), "CPU:0"));
  EXPECT_ERROR(Code::InvalidArgument, "dtypes differ",
               ops_->reduce(ReduceOp::Sum, spread({zeros({2}), zeros({2}, kInt32)}), "CPU:0"));
  EXPECT_ERROR(Code::InvalidArgument, "bool",
               ops_->reduce(ReduceOp::Sum, spread({Tensor({true}), Tensor({false})}), "CPU:0"));
  EXPECT_ERROR(Code::InvalidArgument, "bytes_per_pack",
               ops_->reduce(ReduceOp::Sum, numbered(2, {1}), "CPU:0", {.bytes_per_pack = -4}));
}

TEST_P(EveryAlgorithm, IgnoresHintsInItsResults) {
  const DistributedValue value = numbered(3, {100});
  const std::vector<ReduceRequest> requests{{value, value}, {value, value}};
  for (const CommunicationOptions& options :
       {CommunicationOptions{.bytes_per_pack = 8},
        CommunicationOptions{.timeout = std::chrono::seconds(10),
        .implementation = CommunicationImplementation::Nccl}}) {
    for (const DistributedValue& result : ops_->batch_reduce(ReduceOp::Sum, requests, options)) {
      expect_mirrored(result, serial_sum(value), value.devices());
    }
  }
}

TEST_P(EveryAlgorithm, BroadcastsToEveryDestination) {
  const DistributedValue two = numbered(2, {1});
  expect_mirrored(ops_->broadcast(Tensor({1.f, 2.f}), two), Tensor({1.f, 2.f}), two.devices());
}

TEST_P(EveryAlgorithm, HasAReadableName) {
  EXPECT_NE(ops_->to_string().find('('), std::string::npos);
}

TEST(CrossDeviceOps, OfTheUserSeeSumsMinMaxAndProductOnly) {
  OwnOps ops;
  const DistributedValue value = numbered(2, {2});
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Min}) {
    ops.reduce(op, value, value);
  }
  EXPECT_EQ(ops.asked, (std::vector<ReduceOp>{ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Min}));
}

// Returns what it is told to, whatever it is asked for.
class FixedOps : public OwnOps {
 public:
  explicit FixedOps(std::vector<std::vector<Tensor>> results) : results_(std::move(results)) {}
  std::string to_string() const override { return "FixedOps()"; }

 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp, std::span<const ReduceRequest>,
                                                const CommunicationOptions&) override {
    return results_;
  }

 private:
  const std::vector<std::vector<Tensor>> results_;
};

TEST(CrossDeviceOps, OfTheUserThatReturnSomethingElseAreNamedWithBoth) {
  const DistributedValue value = numbered(2, {2});
  const auto sum_by = [&](std::vector<std::vector<Tensor>> results) {
    FixedOps(std::move(results)).reduce(ReduceOp::Sum, value, value);
  };
  const auto twice = [](const Tensor& x) { return std::vector<std::vector<Tensor>>{{x, x}}; };
  EXPECT_NO_THROW(sum_by(twice(zeros({2}))));
  EXPECT_ERROR(Code::InvalidArgument,
               "[FixedOps()] reduce_dense returned the results of 0 requests, expected those of 1",
               sum_by({}));
  EXPECT_ERROR(Code::InvalidArgument,
               "[FixedOps()] reduce_dense returned 1 tensors for request 0, which has 2 "
               "destinations",
               sum_by({{zeros({2})}}));
  EXPECT_ERROR(Code::InvalidArgument, "returned float32 (3,) for request 0, expected float32 (2,)",
               sum_by(twice(zeros({3}))));
  EXPECT_ERROR(Code::InvalidArgument, "returned int32 (2,) for request 0, expected float32 (2,)",
               sum_by(twice(cast(zeros({2}), kInt32))));
  EXPECT_ERROR(Code::InvalidArgument, "returned a tensor that holds nothing for request 0",
               sum_by(twice(Tensor())));
}

// Asks for a value, which a symbol has not.
class CuriousOps : public OwnOps {
 public:
  std::string to_string() const override { return "CuriousOps()"; }

 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override {
    (void)requests[0].value[0].dense().to<float>();
    return OwnOps::reduce_dense(op, requests, options);
  }
};

TEST(CrossDeviceOps, OfTheUserThatNeedValuesAreNamedInATrace) {
  const auto sum_twice = [](const Tensor& x) {
    return CuriousOps().reduce(ReduceOp::Sum, spread({x, x}), cpu(0))[0].dense();
  };
  EXPECT_EQ(sum_twice(Tensor(2.f)).to<float>(), 4);
  EXPECT_ERROR(Code::FailedPrecondition,
               "[CuriousOps()] reduce_dense failed while a function was traced",
               function(sum_twice)(Tensor(2.f)));
}

class OwnError : public Error {
 public:
  OwnError() : Error(Code::Internal, "[OwnOps] of a type of the program") {}
};

class ThrowingOps : public OwnOps {
 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp, std::span<const ReduceRequest>,
                                                const CommunicationOptions&) override {
    throw OwnError();
  }
};

TEST(CrossDeviceOps, OfTheUserKeepTheTypesOfTheirErrors) {
  const DistributedValue value = numbered(2, {2});
  EXPECT_THROW(ThrowingOps().reduce(ReduceOp::Sum, value, value), OwnError);
}

TEST(ReduceOp, PrintsItsName) {
  std::ostringstream out;
  out << ReduceOp::Sum << ' ' << ReduceOp::Mean;
  EXPECT_EQ(out.str(), "Sum Mean");
}

TEST(DirectAllReduce, SharesOneBufferBetweenTheDevices) {
  const DistributedValue value = numbered(2, {1000});
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean}) {
    const DistributedValue result = DirectAllReduce().reduce(op, value, value);
    EXPECT_TRUE(internal::same_memory(result[0].dense(), result[1].dense()));
  }
}

TEST(DirectAllReduce, AddsUpInTheOrderOfTheComponents) {
  const DistributedValue value = spread({Tensor({1e8f}), Tensor({1.f}), Tensor({-1e8f})});
  EXPECT_EQ(DirectAllReduce().reduce(ReduceOp::Sum, value, value)[2].dense().to<float>(),
            (1e8f + 1.f) - 1e8f);
}

TEST(DirectAllReduce, LetsNanWin) {
  const float nan = NAN;
  for (const auto& value :
       {spread({Tensor({nan}), Tensor({1.f})}), spread({Tensor({1.f}), Tensor({nan})})}) {
    for (const ReduceOp op : {ReduceOp::Min, ReduceOp::Max}) {
      EXPECT_TRUE(std::isnan(DirectAllReduce().reduce(op, value, value)[0].dense().to<float>()));
    }
  }
}

TEST(DirectAllReduce, WrapsIntegersAround) {
  const int64_t large = std::numeric_limits<int64_t>::max();
  const DistributedValue value = spread({Tensor({large}), Tensor({int64_t{1}})});
  EXPECT_EQ(DirectAllReduce().reduce(ReduceOp::Sum, value, value)[0].dense().to<int64_t>(),
            std::numeric_limits<int64_t>::min());
}

TEST(ReductionToOneDevice, LetsTheUserAccumulateThere) {
  std::vector<std::string> seen;
  ReductionToOneDevice ops("CPU:1", [&](std::span<const Tensor> parts) {
    for (const Tensor& part : parts) seen.push_back(part.device());
    return parts[0] * 10.f + parts[1];
  });
  const DistributedValue value = spread({Tensor({1.f}), Tensor({2.f})});
  expect_mirrored(ops.reduce(ReduceOp::Sum, value, "CPU:0"), Tensor({12.f}), {cpu(0)});
  EXPECT_EQ(seen, (std::vector<std::string>{cpu(1), cpu(1)}));
  expect_mirrored(ops.reduce(ReduceOp::Mean, value, "CPU:0"), Tensor({6.f}), {cpu(0)});
}

TEST(HierarchicalCopyAllReduce, AndNcclRefuseANegativeNumberOfPacks) {
  EXPECT_ERROR(Code::InvalidArgument, "num_packs", HierarchicalCopyAllReduce(-1));
  EXPECT_ERROR(Code::InvalidArgument, "num_packs", NcclAllReduce(-2));
}

TEST(CrossDeviceOps, TapesSeeReductionsOnOneDevice) {
  const DistributedValue value = spread({Tensor({1.f}), Tensor({2.f})});
  GradientTape tape;
  tape.watch(value[1].dense());
  const Tensor mean = ReductionToOneDevice().reduce(ReduceOp::Mean, value, "CPU:0")[0];
  EXPECT_EQ(tape.gradient(mean * 3.f, value[1].dense()).dense().to<float>(), 1.5f);
}

TEST(Destinations, AreTheDevicesOfWhatTheyAreMadeFrom) {
  internal::ensure_cpu_devices(3);
  EXPECT_EQ(Destinations("cpu:1").devices(), (std::vector<std::string>{cpu(1)}));
  EXPECT_EQ(Destinations(Tensor(1.f)).devices(), (std::vector<std::string>{cpu(0)}));
  EXPECT_EQ(Destinations(numbered(3, {1})).devices(),
            (std::vector<std::string>{cpu(0), cpu(1), cpu(2)}));
  EXPECT_EQ(Destinations(Variable(1.f)).devices(), (std::vector<std::string>{cpu(0)}));
  EXPECT_ERROR(Code::InvalidArgument, "empty", Destinations(""));
  EXPECT_ERROR(Code::InvalidArgument, "list of devices is empty", Destinations::of_devices({}));
}

TEST(Destinations, TakeWhatIsMissingFromTheDeviceScope) {
  const DeviceScope on("CPU:2");
  EXPECT_EQ(Destinations("/task:0").devices(), (std::vector<std::string>{cpu(2)}));
}

}  // namespace
}  // namespace cohort
