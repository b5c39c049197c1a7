// What a C++ number, and what a tensor, means that replicas write or reduce: the same on one worker
// with four replicas, two with two and four with one; plain, traced in the replica, and traced
// around run().

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_workers.h"

namespace cohort {
namespace {

using test::on_workers;

constexpr int kReplicas = 4;
constexpr float kStart = 9;

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

MultiWorkerOptions with_replicas(int count) {
  MultiWorkerOptions options;
  for (int i = 0; i < count; ++i) options.devices.push_back("CPU:" + std::to_string(i));
  return options;
}

// How many workers share the four replicas.
class Workers : public testing::TestWithParam<int> {
 protected:
  static MultiWorkerOptions options() { return with_replicas(kReplicas / GetParam()); }
  static void on_all(const std::function<void(MultiWorkerMirroredStrategy&)>& body) {
    on_workers(GetParam(), body, options());
  }
};
INSTANTIATE_TEST_SUITE_P(OfFourReplicas, Workers, testing::Values(1, 2, 4));

// The workers have met as often as each other: none has one's value for another call.
void expect_in_step(MultiWorkerMirroredStrategy& strategy) {
  const auto own = strategy.distribute_values_from_function([](ValueContext) { return ones({1}); });
  EXPECT_EQ(strategy.reduce(ReduceOp::Sum, own).to<float>(), kReplicas);
}

enum class Form { Plain, TracedInside, TracedAround };
constexpr Form kForms[] = {Form::Plain, Form::TracedInside, Form::TracedAround};

template <typename Step>
void run_as(Form form, MultiWorkerMirroredStrategy& strategy, const Step& step) {
  if (form == Form::Plain) {
    strategy.run(step);
  } else if (form == Form::TracedInside) {
    strategy.run(function(step));
  } else {
    function([&] { strategy.run(step); })();
  }
}

// What the replicas have to write, made once for all of them.
struct Values {
  explicit Values(Strategy& strategy)
      : equal_parts(
            strategy.distribute_values_from_function([](ValueContext) { return Tensor(2.f); })),
        equal_numbers(strategy.distribute_values_from_function([](ValueContext) { return 2.f; })) {}
  const Tensor shared = Tensor(2.f);
  PerReplica<Tensor> equal_parts;
  PerReplica<float> equal_numbers;
};

struct Given {
  const char* name;
  void (*write)(Variable& variable, const Values& values);
  std::optional<float> sum;  // none: refused
  float mean;
  float first;
};

// The numbers 0 and 1 are there because no value is a special one.
const Given kGiven[] = {
    {"equal numbers", [](Variable& v, const Values&) { v.assign(2.f); }, {}, 2, 2},
    {"zeros", [](Variable& v, const Values&) { v.assign(0.f); }, {}, 0, 0},
    {"different numbers",
     [](Variable& v, const Values&) { v.assign(static_cast<float>(replica_id())); },
     {},
     1.5,
     0},
    {"integers", [](Variable& v, const Values&) { v.assign(replica_id()); }, {}, 1.5, 0},
    {"equal tensors", [](Variable& v, const Values&) { v.assign(Tensor(2.f)); }, 8, 2, 2},
    {"different tensors",
     [](Variable& v, const Values&) { v.assign(Tensor(static_cast<float>(replica_id()))); }, 6, 1.5,
     0},
    {"one tensor", [](Variable& v, const Values& x) { v.assign(x.shared); }, 8, 2, 2},
    {"equal components", [](Variable& v, const Values& x) { v.assign(x.equal_parts); }, 8, 2, 2},
    {"components that are numbers", [](Variable& v, const Values& x) { v.assign(x.equal_numbers); },
     8, 2, 2},
    {"a number by the first replica",
     [](Variable& v, const Values&) { replica_id() == 0 ? v.assign(2.f) : v.assign(Tensor(2.f)); },
     {},
     2,
     2},
    {"a number by the last replica",
     [](Variable& v, const Values&) {
       replica_id() == kReplicas - 1 ? v.assign(2) : v.assign(Tensor(2.f));
     },
     {},
     2,
     2},
};

void check_write(MultiWorkerMirroredStrategy& strategy, const Given& given, Form form,
                 VariableAggregation aggregation, const std::optional<float>& expected) {
  SCOPED_TRACE(fmt::format("{}, form {}, aggregation {}", given.name, static_cast<int>(form),
                           static_cast<int>(aggregation)));
  Variable variable =
      strategy.create([&] { return Variable(kStart, {.name = "v", .aggregation = aggregation}); });
  const Values values(strategy);
  const Status status =
      capture_status([&] { run_as(form, strategy, [&] { given.write(variable, values); }); });
  if (expected) {
    EXPECT_TRUE(status.ok()) << status.to_string();
  } else {
    EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
    EXPECT_NE(status.message.find("pass a Tensor to add it once per replica"), std::string::npos)
        << status.message;
  }
  for (const Variable& copy : strategy.local_results(variable)) {
    EXPECT_EQ(copy.read_value().to<float>(), expected.value_or(kStart));
  }
  expect_in_step(strategy);
}

TEST_P(Workers, WriteNumbersAndTensorsByTheirTypeAlone) {
  on_all([](MultiWorkerMirroredStrategy& strategy) {
    for (const Form form : kForms) {
      for (const Given& given : kGiven) {
        check_write(strategy, given, form, VariableAggregation::Sum, given.sum);
        check_write(strategy, given, form, VariableAggregation::Mean, given.mean);
        check_write(strategy, given, form, VariableAggregation::OnlyFirstReplica, given.first);
      }
    }
  });
}

TEST_P(Workers, AddAndSubtractNumbersByTheSameRule) {
  on_all([](MultiWorkerMirroredStrategy& strategy) {
    for (const Form form : kForms) {
      const auto scope = strategy.scope();
      Variable mean(kStart, {.aggregation = VariableAggregation::Mean});
      Variable pair({1.f, 2.f}, {.aggregation = VariableAggregation::Mean});
      Variable total(int64_t{7}, {.aggregation = VariableAggregation::Sum});
      run_as(form, strategy, [&] {
        mean.assign_add(replica_id());
        mean.assign_sub(0.5);
        pair.assign_add(static_cast<float>(replica_id()));  // to each element
      });
      EXPECT_EQ(mean.read_value().to<float>(), kStart + 1);
      EXPECT_EQ(pair.read_value().to_vector<float>(), (std::vector<float>{2.5, 3.5}));
      EXPECT_ERROR(Code::InvalidArgument, "pass a Tensor",
                   run_as(form, strategy, [&] { total.assign_add(1); }));
      EXPECT_ERROR(Code::InvalidArgument, "pass a Tensor",
                   run_as(form, strategy, [&] { total.assign_sub(int64_t{0}); }));
      run_as(form, strategy, [&] { total.assign_add(Tensor(int64_t{1})); });
      EXPECT_EQ(total.read_value().to<int64_t>(), 7 + kReplicas);
      expect_in_step(strategy);
    }
  });
}

TEST(NumberWrites, OfOneReplicaOnEachOfTwoWorkersAreAveraged) {
  on_workers(2, [](MultiWorkerMirroredStrategy& s) {
    Variable v = s.create([] { return Variable(9.f, {.aggregation = VariableAggregation::Mean}); });
    s.run([&] { v.assign(static_cast<float>(replica_id())); });
    EXPECT_EQ(v.read_value().to<float>(), 0.5);
  });
}

TEST(NumberWrites, AreAveragedWhereOnlyOneWorkersReplicasDiffer) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& s) {
        Variable v =
            s.create([] { return Variable(9.f, {.aggregation = VariableAggregation::Mean}); });
        s.run([&] { v.assign(replica_id() == 3 ? 5.f : 1.f); });
        EXPECT_EQ(v.read_value().to<float>(), 2);
        const auto own = s.run([] { return ones({}); });
        EXPECT_EQ(s.reduce(ReduceOp::Sum, own).to<float>(), 4);
      },
      test::kTwoReplicas);
}

// --- One component here is not one value for all.

TEST_P(Workers, ReduceCopiesThatAreReadTogether) {
  on_all([](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Variable seen({0.f}, {.synchronization = VariableSynchronization::OnRead,
                          .aggregation = VariableAggregation::Mean});
    strategy.run([&] { seen.assign(fill({1}, static_cast<float>(replica_id() + 1))); });
    EXPECT_EQ(strategy.reduce(ReduceOp::Sum, seen).to<float>(), 10);
    EXPECT_EQ(strategy.reduce(ReduceOp::Mean, seen).to<float>(), 2.5);
    EXPECT_EQ(strategy.reduce(ReduceOp::Max, seen).to<float>(), 4);
    EXPECT_EQ(strategy.reduce(ReduceOp::Sum, seen, 0).to<float>(), 10);
    EXPECT_EQ(strategy.gather(seen, 0).to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
    // As a value it is what all copies are together.
    Variable mirrored({0.f});
    mirrored.assign(DistributedValue(seen));
    for (const Variable& copy : strategy.local_results(mirrored)) {
      EXPECT_EQ(copy.read_value().to<float>(), 2.5);
    }
    expect_in_step(strategy);
  });
}

TEST_P(Workers, RefuseToWriteComponentsOutsideReplicasWhateverTheyAre) {
  on_all([](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const Tensor one(3.f);
    const auto same = strategy.run([&] { return one; });
    Variable mirrored(kStart);
    Variable seen(kStart, {.synchronization = VariableSynchronization::OnRead,
                           .aggregation = VariableAggregation::Mean});
    EXPECT_ERROR(Code::InvalidArgument, "PerReplica", mirrored.assign(same));
    EXPECT_ERROR(Code::InvalidArgument, "PerReplica", seen.assign(same));
    EXPECT_ERROR(Code::InvalidArgument, "PerReplica", strategy.run([&] { seen.assign(same); }));
    EXPECT_ERROR(Code::InvalidArgument, "PerReplica", strategy.run([&] { mirrored.assign(same); }));
    EXPECT_EQ(mirrored.read_value().to<float>(), kStart);
    EXPECT_EQ(seen.read_value().to<float>(), kStart);
    expect_in_step(strategy);
  });
}

TEST(NumberReductions, OfAVariableThatNoStrategyKeepsCountOncePerWorker) {
  on_workers(
      2,
      [](MultiWorkerMirroredStrategy& strategy) {
        const Variable own({static_cast<float>(strategy.worker_id() + 1)});
        EXPECT_EQ(strategy.reduce(ReduceOp::Sum, own).to<float>(), 3);
        EXPECT_EQ(strategy.reduce(ReduceOp::Mean, own).to<float>(), 1.5);
        EXPECT_EQ(strategy.reduce(ReduceOp::Mean, own, 0).to<float>(), 1.5);
        EXPECT_EQ(strategy.gather(own, 0).to_vector<float>(), (std::vector<float>{1, 2}));
        // And so does a number.
        EXPECT_EQ(strategy.reduce(ReduceOp::Mean, strategy.worker_id() + 1.f).to<float>(), 1.5);
        EXPECT_EQ(strategy.reduce(ReduceOp::Sum, 0.f + strategy.worker_id()).to<float>(), 1);
      },
      test::kTwoReplicas);
}

}  // namespace
}  // namespace cohort
