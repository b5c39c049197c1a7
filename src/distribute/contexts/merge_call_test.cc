#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/replica_values.h"

namespace cohort {
namespace {

class MergeCall : public ::testing::Test {
 protected:
  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
};

TEST_F(MergeCall, MergesOnce) {
  std::atomic<int> calls{0};
  const auto results = strategy_.run(
      [&](int x) {
        const int y = x + replica_id();
        const int s = get_replica_context()->merge_call(
            [&](Strategy& given, const PerReplica<int>& all) {
              ++calls;
              EXPECT_EQ(&given, &strategy_);
              int sum = 0;
              for (const int one : given.local_results(all)) sum += one;
              return sum;
            },
            y);
        return s * 10 + y;
      },
      5);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(printed(results), "PerReplica:{\n  0: 115,\n  1: 116\n}");
}

TEST_F(MergeCall, MergeArgumentsArriveRegrouped) {
  const Variable variable = strategy_.create([] { return Variable(1.f); });
  const Tensor same({1.f});
  strategy_.run([&] {
    get_replica_context()->merge_call(
        [&](Strategy&, Tensor one, const std::vector<PerReplica<int>>& list,
            const std::map<std::string, PerReplica<std::string>>& by_name, const Variable& whole) {
          EXPECT_TRUE(internal::same_tensor(one, same));
          EXPECT_EQ(list.at(0)[1], 1);
          EXPECT_EQ(list.at(1).value(), 7);
          EXPECT_EQ(by_name.at("name").value(), "both");
          EXPECT_TRUE(internal::same_variable(whole, variable));
        },
        same, std::vector<int>{replica_id(), 7},
        std::map<std::string, std::string>{{"name", "both"}}, variable);
  });
}

TEST_F(MergeCall, LiteralsArriveAsWhatTheyDecayTo) {
  strategy_.run([&] {
    get_replica_context()->merge_call(
        [](Strategy&, const PerReplica<const char*>& text, const char* plain,
           const PerReplica<int>& id) {
          EXPECT_STREQ(text.value(), "hello");
          EXPECT_STREQ(plain, "world");
          EXPECT_EQ(id[1], 1);
        },
        "hello", "world", replica_id());
  });
}

TEST_F(MergeCall, DifferentVariablesArriveApartWhereTheMergeTakesThemSo) {
  const Variable a = strategy_.create([] { return Variable(1.f); });
  const Variable b = strategy_.create([] { return Variable(2.f); });
  const auto apart = [&](Strategy&, const PerReplica<Variable>& all) {
    EXPECT_TRUE(internal::same_variable(all[0], a));
    return all;
  };
  const auto own = strategy_.run([&] {
    const Variable mine = get_replica_context()->merge_call(apart, replica_id() == 0 ? a : b);
    return internal::same_variable(mine, replica_id() == 0 ? a : b);
  });
  EXPECT_TRUE(own[0] && own[1]);
  strategy_.run([&] {
    get_replica_context()->merge_call(
        [&](Strategy&, const PerReplica<Variable>& all) { EXPECT_TRUE(all.collapsed()); }, a);
  });
}

TEST_F(MergeCall, DifferentVariablesAreAnErrorWhereTheMergeTakesOne) {
  const Variable a = strategy_.create([] { return Variable(1.f, {.name = "a"}); });
  const Variable b = strategy_.create([] { return Variable(2.f, {.name = "b"}); });
  EXPECT_ERROR(Code::InvalidArgument, "variable 'a' and replica 1 another one, 'b'",
               strategy_.run([&] {
                 get_replica_context()->merge_call([](Strategy&, const Variable&) {},
                                                   replica_id() == 0 ? a : b);
               }));
}

TEST_F(MergeCall, EachReplicaGetsItsComponentOfAMergesResult) {
  const auto results = strategy_.run([&] {
    const std::vector<Tensor> own = get_replica_context()->merge_call(
        [](Strategy&, const PerReplica<Tensor>& all) {
          return std::vector<PerReplica<Tensor>>{all, all};
        },
        Tensor(static_cast<float>(replica_id())));
    return own.at(1).to<float>();
  });
  EXPECT_EQ(results[0], 0.f);
  EXPECT_EQ(results[1], 1.f);
}

TEST_F(MergeCall, MergesOnTheCallersDevice) {
  const auto on = device("CPU:1");
  const auto where = strategy_.run([] {
    return get_replica_context()->merge_call([](Strategy&) { return Tensor({1.f}).device(); });
  });
  EXPECT_EQ(where.value(), device_name(1));
}

TEST_F(MergeCall, RunsAndMergesNestInMergeFunctions) {
  const auto results = strategy_.run([&] {
    return get_replica_context()->merge_call(
        [](Strategy& s, const PerReplica<int>& outer) {
          return s.run(
              [&](int own) {
                return get_replica_context()->merge_call(
                    [](Strategy&, const PerReplica<int>& inner) { return inner[0] + inner[1]; },
                    own * 100);
              },
              outer);
        },
        replica_id() + 1);
  });
  EXPECT_EQ(results.value(), 300);
}

TEST_F(MergeCall, AMergesExceptionReachesEveryReplica) {
  std::atomic<int> caught{0};
  const auto failing = [&] {
    try {
      get_replica_context()->merge_call([](Strategy&) { throw std::out_of_range("merge"); });
    } catch (const std::out_of_range&) {
      ++caught;
      throw;
    }
  };
  EXPECT_THROW(strategy_.run(failing), std::out_of_range);
  EXPECT_EQ(caught, 2);
}

TEST_F(MergeCall, GoesOnWhenReplicasHandleAMergesException) {
  const auto results = strategy_.run([] {
    try {
      get_replica_context()->merge_call([](Strategy&) { throw std::out_of_range("merge"); });
    } catch (const std::out_of_range&) {
    }
    return get_replica_context()->merge_call([](Strategy&) { return 5; });
  });
  EXPECT_EQ(results.value(), 5);
}

// --- Failing

TEST_F(MergeCall, NamesTheReplicasOfUnequalMergeCalls) {
  for (int waiting = 0; waiting < 2; ++waiting) {
    const auto step = [&] {
      if (replica_id() == waiting) get_replica_context()->merge_call([](Strategy&) {});
    };
    const std::string message = "replicas " + std::to_string(waiting) +
                                " wait in a call for replicas " + std::to_string(1 - waiting);
    EXPECT_ERROR(Code::FailedPrecondition, message, strategy_.run(step));
  }
}

TEST_F(MergeCall, UnequalMergeCallsAreAnErrorEvenWhenCaught) {
  const auto step = [] {
    if (replica_id() == 1) return;
    EXPECT_ERROR(Code::FailedPrecondition, "wait in a call",
                 get_replica_context()->merge_call([](Strategy&) {}));
  };
  EXPECT_ERROR(Code::FailedPrecondition, "replicas 0 wait", strategy_.run(step));
}

TEST_F(MergeCall, NamesTheReplicasThatCallDifferentThings) {
  const auto step = [] {
    if (replica_id() == 0) {
      get_replica_context()->merge_call([](Strategy&, const PerReplica<int>&) {}, 1);
    } else {
      get_replica_context()->merge_call([](Strategy&, const PerReplica<float>&) {}, 1.f);
    }
  };
  EXPECT_ERROR(Code::FailedPrecondition, "replica 0 calls merge_call, while replica 1 calls",
               strategy_.run(step));
}

TEST_F(MergeCall, StructuresOfMergedArgumentsMustAgree) {
  const auto step = [] {
    const std::vector<int> list(static_cast<size_t>(replica_id()) + 1);
    get_replica_context()->merge_call([](Strategy&, const std::vector<PerReplica<int>>&) {}, list);
  };
  EXPECT_ERROR(Code::InvalidArgument, "replica 1 has a list of 2", strategy_.run(step));
  const auto named = [] {
    const std::map<std::string, int> map{{replica_id() == 0 ? "a" : "b", 1}};
    get_replica_context()->merge_call(
        [](Strategy&, const std::map<std::string, PerReplica<int>>&) {}, map);
  };
  EXPECT_ERROR(Code::InvalidArgument, "named 'a'", strategy_.run(named));
}

}  // namespace
}  // namespace cohort
