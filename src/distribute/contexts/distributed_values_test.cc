#include <gtest/gtest.h>

#include <sstream>

#include "cohort/cohort.h"
#include "cohort/values.h"
#include "distribute/contexts/context.h"
#include "support/expect_error.h"

namespace cohort {

struct Batch {
  Tensor images;
  int count = 0;
};
template <>
struct Fields<Batch> {
  static auto of(auto& batch) { return std::tie(batch.images, batch.count); }
};

namespace {

using Kind = DistributedValue::Kind;

template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

class Values : public ::testing::Test {
 protected:
  PerReplica<Tensor> numbers(float scale) {
    return strategy_.distribute_values_from_function([scale](ValueContext context) {
      return Tensor(scale * static_cast<float>(context.replica_id_in_sync_group + 1));
    });
  }

  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
};

TEST_F(Values, OneOfThemConvertsToANumber) {
  OneDeviceStrategy one("CPU:0");
  EXPECT_EQ(one.run([] { return Tensor(3.f); }).to<int>(), 3);
  EXPECT_ERROR(Code::Unimplemented, "reduce()", numbers(1.f).to<float>());
}

TEST_F(Values, CollapseByIdentityOfTensorsAndEqualityOfPlainValues) {
  const Tensor shared({1.f});
  enum class Colour { Red };
  EXPECT_TRUE(strategy_.run([&] { return shared; }).collapsed());
  EXPECT_FALSE(strategy_.run([] { return Tensor({1.f}); }).collapsed());
  EXPECT_TRUE(strategy_.run([] { return 2.5; }).collapsed());
  EXPECT_TRUE(strategy_.run([] { return true; }).collapsed());
  EXPECT_TRUE(strategy_.run([] { return Colour::Red; }).collapsed());
  EXPECT_TRUE(strategy_.run([] { return std::string("x"); }).collapsed());
  EXPECT_FALSE(strategy_.run([] { return replica_id(); }).collapsed());
  EXPECT_TRUE(strategy_.run([&] { return std::vector<Tensor>{shared, shared}; }).collapsed());
  EXPECT_TRUE(strategy_.run([&] { return Batch{shared, 1}; }).collapsed());
  EXPECT_FALSE(strategy_.run([&] { return Batch{shared, replica_id()}; }).collapsed());
}

TEST_F(Values, ConvertOnlyWhereOneValueIsMeant) {
  const PerReplica<Tensor> values = numbers(1.f);
  EXPECT_ERROR(Code::Unimplemented, "local_results()", Tensor(values));
  EXPECT_ERROR(Code::Unimplemented, "got 2, one for each", values + 1.f);
  EXPECT_EQ(strategy_.run([&] { return (values * 10.f).to<float>(); })[1], 20.f);
  EXPECT_ERROR(Code::InvalidArgument, "component 2 does not exist", values[2]);
  const internal::UpdateScope updating(1);
  EXPECT_EQ((values + 1.f).to<float>(), 3.f);
}

TEST_F(Values, FromAFunctionAreAlwaysWrapped) {
  std::vector<int> asked;
  const auto same = strategy_.distribute_values_from_function([&](ValueContext context) {
    EXPECT_EQ(context.num_replicas_in_sync, 2);
    asked.push_back(context.replica_id_in_sync_group);
    return 3;
  });
  EXPECT_EQ(asked, (std::vector<int>{0, 1}));
  EXPECT_FALSE(same.collapsed());
  EXPECT_EQ(printed(same), "PerReplica:{\n  0: 3,\n  1: 3\n}");
  const auto nested = strategy_.distribute_values_from_function([](ValueContext context) {
    return std::map<std::string, int>{{"id", context.replica_id_in_sync_group}};
  });
  EXPECT_EQ(nested.at("id")[1], 1);
  EXPECT_EQ(ValueContext().num_replicas_in_sync, 1);
}

TEST_F(Values, FromAFunctionAreBareWithOneReplica) {
  OneDeviceStrategy one("CPU:0");
  EXPECT_EQ(printed(one.distribute_values_from_function([](ValueContext) { return 3; })), "3");
  EXPECT_EQ(printed(get_strategy().distribute_values_from_function(
                [](ValueContext context) { return context.num_replicas_in_sync; })),
            "1");
  MirroredStrategy single({"CPU:0"});
  const auto wrapped = single.distribute_values_from_function([](ValueContext) { return 3; });
  EXPECT_EQ(printed(wrapped), "PerReplica:{\n  0: 3\n}");
  EXPECT_EQ(wrapped + 1, 4);
}

TEST_F(Values, LocalResultsHaveOneEntryForEachReplica) {
  const PerReplica<Tensor> values = numbers(2.f);
  const std::vector<Tensor> own = strategy_.local_results(values);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[1].to<float>(), 4.f);

  const auto nest = strategy_.local_results(std::pair(values, std::string("all")));
  ASSERT_EQ(nest.size(), 2u);
  EXPECT_EQ(nest[1].first.to<float>(), 4.f);
  EXPECT_EQ(nest[0].second, "all");

  EXPECT_EQ(strategy_.local_results(Tensor(1.f)).size(), 1u);
  EXPECT_EQ(strategy_.local_results(7), std::vector<int>{7});
  EXPECT_EQ(strategy_.local_results(DistributedValue(values)).size(), 2u);

  const auto collapsed = strategy_.run([] { return 7; });
  EXPECT_EQ(strategy_.local_results(collapsed), (std::vector<int>{7, 7}));
  const Tensor same({1.f});
  EXPECT_EQ(strategy_.local_results(strategy_.run([&] { return same; })).size(), 2u);
  const auto pairs = strategy_.run([&] { return std::pair(same, 7); });
  EXPECT_EQ(strategy_.local_results(pairs).size(), 2u);
  EXPECT_EQ(strategy_.local_results(std::vector{collapsed, collapsed}).size(), 2u);

  OneDeviceStrategy one("CPU:0");
  EXPECT_EQ(one.local_results(std::vector<int>{1, 2}).size(), 1u);
  EXPECT_EQ(get_strategy().local_results(5), std::vector<int>{5});
}

TEST_F(Values, MirroredOnesStandForTheirValue) {
  std::vector<Gradient> parts;
  for (const char* name : {"CPU:0", "CPU:1"}) {
    const auto on = device(name);
    parts.emplace_back(identity(Tensor({6.f})));
  }
  const DistributedValue mirrored(Kind::Mirrored, parts);
  EXPECT_EQ((mirrored + 2.f).to<float>(), 8.f);
  EXPECT_EQ(pow(Tensor(2.f), mirrored).to<float>(), 64.f);
  EXPECT_EQ(floor_div(mirrored, Tensor(4.f)).to<float>(), 1.f);
  const auto on = device("CPU:1");
  EXPECT_TRUE(internal::same_tensor(mirrored.value().dense(), parts[1].dense()));
  EXPECT_EQ(printed(mirrored),
            "Mirrored:{\n"
            "  0: Tensor([6.], shape=(1,), dtype=float32),\n"
            "  1: Tensor([6.], shape=(1,), dtype=float32)\n"
            "}");
}

TEST_F(Values, MirroredOnesHaveTheOperatorsOfTensors) {
  const DistributedValue six =
      strategy_.extended().broadcast_to(Tensor({6}), Destinations::of_devices({"CPU:0", "CPU:1"}));
  const std::vector<std::pair<Tensor, int>> cases = {
      {six + 2, 8},  {2 - six, -4},  {six * six, 36},   {six % 4, 2},
      {-six, -6},    {abs(-six), 6}, {pow(2, six), 64}, {floor_div(six, 4), 1},
      {six & 3, 2},  {six | 1, 7},   {six ^ 3, 5},      {~six, -7},
      {six == 6, 1}, {six != 6, 0},  {six < 7, 1},      {six >= 7, 0},
  };
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(cases[i].first.to<int>(), cases[i].second) << i;
  const DistributedValue square = strategy_.extended().broadcast_to(
      Tensor({{1.f, 2.f}, {3.f, 4.f}}), Destinations::of_devices({"CPU:0", "CPU:1"}));
  EXPECT_EQ(matmul(square, square).at<float>({0, 0}), 7.f);
  EXPECT_EQ(strategy_.run([&] { return (six / 4).to<float>(); }).value(), 1.5f);
}

TEST_F(Values, VariablesHaveTheOperatorsOfTensors) {
  const Variable v = strategy_.create([] { return Variable({4, 6}); });
  const auto check = [&] {
    EXPECT_EQ((v + 1).to_vector<int>(), (std::vector<int>{5, 7}));
    EXPECT_EQ((v & 6).to_vector<int>(), (std::vector<int>{4, 6}));
    EXPECT_EQ((~v).to_vector<int>(), (std::vector<int>{-5, -7}));
    EXPECT_EQ((v > 5).to_vector<bool>(), (std::vector<bool>{false, true}));
    EXPECT_EQ(v[-1].to<int>(), 6);
    EXPECT_EQ(v.value().to_vector<int>(), v.read_value().to_vector<int>());
  };
  check();
  strategy_.run(check);
}

TEST_F(Values, DistributedOnesKnowTheirDevices) {
  const DistributedValue value = strategy_.run([] { return Tensor({1.f}); });
  EXPECT_EQ(value.devices(), strategy_.extended().worker_devices());
  EXPECT_EQ(value.kind(), Kind::PerReplica);
  EXPECT_EQ(DistributedValue(3).kind(), Kind::Plain);
  EXPECT_EQ(DistributedValue(3).value().dense().to<int>(), 3);
  EXPECT_ERROR(Code::InvalidArgument, "not a variable", value.variable());
  EXPECT_ERROR(Code::InvalidArgument, "component 5 does not exist", value[5]);
  EXPECT_ERROR(Code::InvalidArgument, "at least one", DistributedValue(Kind::Mirrored, {}));
}

TEST_F(Values, StructsOfTheUserAreTakenApartByTheirFields) {
  const auto batches = strategy_.run([] {
    return Batch{Tensor({1.f + static_cast<float>(replica_id())}), 10 + replica_id()};
  });
  EXPECT_EQ(strategy_.run([](const Batch& own) { return own.count; }, batches)[1], 11);
  const Batch total = strategy_.reduce(ReduceOp::Sum, batches);
  EXPECT_EQ(total.images.to<float>(), 3.f);
  EXPECT_EQ(total.count, 21);
  EXPECT_EQ(printed(batches).substr(0, 55),
            "PerReplica:{\n  0: (Tensor([1.], shape=(1,), dtype=float");
}

TEST(ReduceOps, HaveNames) {
  EXPECT_EQ(parse_reduce_op("sum"), ReduceOp::Sum);
  EXPECT_EQ(parse_reduce_op("MEAN"), ReduceOp::Mean);
  EXPECT_EQ(parse_reduce_op(to_string(ReduceOp::Product)), ReduceOp::Product);
  EXPECT_ERROR(Code::InvalidArgument, "sum, mean, min, max or product", parse_reduce_op("median"));
  EXPECT_EQ(reduce_op_of(VariableAggregation::Sum), ReduceOp::Sum);
  EXPECT_EQ(reduce_op_of(VariableAggregation::Mean), ReduceOp::Mean);
  EXPECT_ERROR(Code::InvalidArgument, "None", reduce_op_of(VariableAggregation::None));
  EXPECT_ERROR(Code::InvalidArgument, "OnlyFirstReplica",
               reduce_op_of(VariableAggregation::OnlyFirstReplica));
}

}  // namespace
}  // namespace cohort
