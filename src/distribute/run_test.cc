#include <gtest/gtest.h>

#include <barrier>
#include <latch>
#include <sstream>
#include <thread>

#include "cohort/cohort.h"
#include "distribute/shared_variables.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::string device_name(int index) {
  return "/job:localhost/replica:0/task:0/device:CPU:" + std::to_string(index);
}

class Run : public ::testing::Test {
 protected:
  MirroredStrategy strategy_{"CPU:0", "CPU:1"};
};

TEST_F(Run, GivesEachReplicaItsPartOfTheArguments) {
  const auto part = strategy_.distribute_values_from_function(
      [](ValueContext context) { return 10 * (context.replica_id_in_sync_group + 1); });
  const std::map<std::string, PerReplica<int>> named{{"rate", part}};
  const auto sums = strategy_.run(
      [](int own, const std::vector<int>& list, std::tuple<int, std::string> pair,
         const std::map<std::string, int>& by_name,
         int plain) { return own + list.at(1) + std::get<0>(pair) + by_name.at("rate") + plain; },
      part, std::vector<PerReplica<int>>{part, part}, std::tuple(part, std::string("same")), named,
      1000);
  EXPECT_EQ(printed(sums), "PerReplica:{\n  0: 1040,\n  1: 1080\n}");
}

TEST_F(Run, PassesVariablesWhole) {
  const Variable variable = strategy_.create([] { return Variable(1.f); });
  const auto given = strategy_.run([](const Variable& whole) { return whole; }, variable);
  EXPECT_TRUE(given.collapsed());
  EXPECT_TRUE(internal::same_variable(given.value(), variable));
}

TEST_F(Run, ReturnsAnyType) {
  struct Opaque {
    int id;
  };
  EXPECT_EQ(strategy_.run([] { return std::string("same"); }).value(), "same");
  EXPECT_EQ(strategy_.run([] { return Opaque{replica_id()}; })[1].id, 1);
  EXPECT_EQ(strategy_.run([] { return std::unique_ptr<int>(new int(7)); }).size(), 2u);
  EXPECT_EQ(strategy_.run([] {}).size(), 2u);
  const auto pairs = strategy_.run([] { return std::pair(replica_id(), 2.5); });
  EXPECT_EQ(printed(pairs), "PerReplica:{\n  0: (0, 2.5),\n  1: (1, 2.5)\n}");
}

TEST_F(Run, SpreadsADatasetsElementOverTheParameters) {
  std::vector<std::optional<data::Element>> elements;
  for (const float value : {1.f, 2.f}) {
    elements.emplace_back(
        data::Element::tuple(std::vector<Tensor>{Tensor(value), Tensor(value * 10)}));
  }
  const PerReplica<data::Element> batch(std::move(elements));
  const auto typed = strategy_.run([](Tensor x, Tensor y) { return (x + y).to<float>(); }, batch);
  EXPECT_EQ(typed[1], 22.f);
  const auto generic =
      strategy_.run([](auto x, auto y) { return (x + y).template to<float>(); }, batch);
  EXPECT_EQ(generic[0], 11.f);
  const auto whole = strategy_.run([](const data::Element& all) { return all.size(); }, batch);
  EXPECT_EQ(whole.value(), 2u);
  const auto more = strategy_.run(
      [](Tensor x, Tensor y, float scale) { return (x + y).to<float>() * scale; }, batch, 2.f);
  EXPECT_EQ(more[1], 44.f);
  const auto traced = function([](Tensor x, Tensor y) { return x * y; });
  EXPECT_EQ(strategy_.run(traced, batch)[1].to<float>(), 40.f);
}

TEST_F(Run, RunsReplicasAtTheSameTimeOnTheirDevices) {
  std::barrier<> both(2);
  const auto devices = strategy_.run([&] {
    both.arrive_and_wait();  // for ever, if one waited for the other to end
    return Tensor({1.f}).device() + " " + get_replica_context()->devices().at(0);
  });
  EXPECT_EQ(devices[0], device_name(0) + " " + device_name(0));
  EXPECT_EQ(devices[1], device_name(1) + " " + device_name(1));
}

TEST_F(Run, KeepsItsThreads) {
  const auto thread = [&] { return strategy_.run([] { return std::this_thread::get_id(); })[1]; };
  const std::thread::id first = thread();
  EXPECT_EQ(thread(), first);
  EXPECT_EQ(strategy_.run([] { return std::this_thread::get_id(); })[0],
            std::this_thread::get_id());
}

TEST_F(Run, ServesSeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> total{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        strategy_.run([&] {
          total += get_replica_context()->merge_call(
              [](Strategy&, PerReplica<int> ids) { return ids[0] + ids[1]; }, replica_id());
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 4 * 20 * 2);
}

TEST_F(Run, RunsMoreReplicasThanCores) {
  MirroredStrategy many({"CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4", "CPU:5", "CPU:6", "CPU:7"});
  for (int i = 0; i < 20; ++i) {
    const auto sums = many.run([&] {
      return get_replica_context()->merge_call(
          [](Strategy& s, PerReplica<int> ids) {
            int sum = 0;
            for (const int id : s.local_results(ids)) sum += id;
            return sum;
          },
          replica_id());
    });
    ASSERT_EQ(sums.value(), 28);
  }
}

TEST_F(Run, TapesAroundItHearNoReplica) {
  const Tensor x({3.f});
  GradientTape tape;
  tape.watch(x);
  const auto y = strategy_.run([&] { return x * 2.f; });
  EXPECT_FALSE(tape.gradient(y[0], x).defined());
}

// --- Merging

TEST_F(Run, MergesOnce) {
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

TEST_F(Run, MergeArgumentsArriveRegrouped) {
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

TEST_F(Run, EachReplicaGetsItsComponentOfAMergesResult) {
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

TEST_F(Run, MergesOnTheCallersDevice) {
  const auto on = device("CPU:1");
  const auto where = strategy_.run([] {
    return get_replica_context()->merge_call([](Strategy&) { return Tensor({1.f}).device(); });
  });
  EXPECT_EQ(where.value(), device_name(1));
}

TEST_F(Run, RunsAndMergesNestInMergeFunctions) {
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

TEST_F(Run, AMergesExceptionReachesEveryReplica) {
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

TEST_F(Run, GoesOnWhenReplicasHandleAMergesException) {
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

TEST_F(Run, ThrowsTheFirstExceptionAndUnwindsTheOthers) {
  for (int failing = 0; failing < 2; ++failing) {
    std::atomic<int> unwound{0};
    struct Count {
      std::atomic<int>& count;
      ~Count() { ++count; }
    };
    const auto step = [&] {
      const Count count{unwound};
      if (replica_id() == failing) throw std::domain_error("first");
      get_replica_context()->merge_call([](Strategy&) {});
    };
    EXPECT_THROW(strategy_.run(step), std::domain_error);
    EXPECT_EQ(unwound, 2);
    EXPECT_FALSE(has_strategy());
    EXPECT_EQ(strategy_.run([] { return 1; }).value(), 1);
  }
}

TEST_F(Run, KeepsTheFirstOfTwoExceptions) {
  std::latch first_thrown(1);
  struct Announce {
    std::latch& latch;
    ~Announce() { latch.count_down(); }
  };
  const auto step = [&] {
    if (replica_id() == 1) throw std::domain_error("first");
    // Comes to a meeting only because the other one failed before.
    try {
      get_replica_context()->merge_call([](Strategy&) {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Cancelled);
    }
    throw std::logic_error("second");
  };
  EXPECT_THROW(strategy_.run(step), std::domain_error);
}

TEST_F(Run, NamesTheReplicasOfUnequalMergeCalls) {
  for (int waiting = 0; waiting < 2; ++waiting) {
    const auto step = [&] {
      if (replica_id() == waiting) get_replica_context()->merge_call([](Strategy&) {});
    };
    const std::string message = "replicas " + std::to_string(waiting) +
                                " wait in a call for replicas " + std::to_string(1 - waiting);
    EXPECT_ERROR(Code::FailedPrecondition, message, strategy_.run(step));
  }
}

TEST_F(Run, UnequalMergeCallsAreAnErrorEvenWhenCaught) {
  const auto step = [] {
    if (replica_id() == 1) return;
    EXPECT_ERROR(Code::FailedPrecondition, "wait in a call",
                 get_replica_context()->merge_call([](Strategy&) {}));
  };
  EXPECT_ERROR(Code::FailedPrecondition, "replicas 0 wait", strategy_.run(step));
}

TEST_F(Run, NamesTheReplicasThatCallDifferentThings) {
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

TEST_F(Run, StructuresOfMergedArgumentsMustAgree) {
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

// --- Variables made inside

TEST_F(Run, VariablesMadeInsideAppearOnce) {
  const auto made = strategy_.run([] {
    const Variable a(1.f, {.name = "w_" + std::to_string(replica_id())});
    const Variable b(2.f, {.name = "w"});
    return std::vector<Variable>{a, b};
  });
  EXPECT_TRUE(made.collapsed());
  EXPECT_EQ(made[1].at(0).name(), "w_0");
  EXPECT_FALSE(internal::same_variable(made[0].at(0), made[0].at(1)));
  EXPECT_EQ(made[1].at(1).read_value().to<float>(), 2.f);
}

TEST_F(Run, TheCallersCreatorsSeeVariablesMadeInside) {
  std::atomic<int> asked{0};
  const VariableCreatorScope counting([&](const NextCreator& next, const VariableRequest& request) {
    ++asked;
    return next(request);
  });
  strategy_.run([] { Variable(1.f); });
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 2);  // one for each copy at most, and none for the other replica's request
}

TEST_F(Run, VariablesThatReplicaZeroDoesNotMakeAreAnError) {
  const auto never = [] {
    if (replica_id() == 1) Variable(1.f, {.name = "extra"});
  };
  EXPECT_ERROR(Code::FailedPrecondition, "'extra', which replica 0 does not make",
               strategy_.run(never));
  const auto waits = [] {
    if (replica_id() == 1) Variable(1.f, {.name = "extra"});
    get_replica_context()->merge_call([](Strategy&) {});
  };
  EXPECT_ERROR(Code::FailedPrecondition, "'extra', which replica 0 does not make",
               strategy_.run(waits));
  const auto both = strategy_.run([] { return Variable(1.f, {.name = "extra"}); });
  EXPECT_TRUE(both.collapsed());
}

TEST_F(Run, TheInitialValueOfAVariableMadeInsideIsComputedOnce) {
  std::atomic<int> calls{0};
  strategy_.run([&] {
    Variable([&] {
      ++calls;
      return Tensor({1.f});
    });
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(Run, ReplicasHaveTheCallersNumericsGuard) {
  const NumericsGuard guard;
  const auto codes =
      strategy_.run([] { return error_of([] { return log(Tensor({-1.f})); }).code; });
  EXPECT_EQ(codes[0], Code::InvalidArgument);
  EXPECT_EQ(codes[1], Code::InvalidArgument);
}

TEST_F(Run, VariablesMustHaveOneShapeAndDtype) {
  const auto shapes = [] { Variable(replica_id() == 0 ? Tensor({1.f}) : Tensor({1.f, 2.f})); };
  EXPECT_ERROR(Code::InvalidArgument, "replica 1 makes variable 'Variable' as float32 (2,)",
               strategy_.run(shapes));
  const auto dtypes = [] { Variable(replica_id() == 0 ? Tensor({1.f}) : Tensor({1})); };
  EXPECT_ERROR(Code::InvalidArgument, "as int32", strategy_.run(dtypes));
}

TEST(VariableNames, LoseWhatTellsReplicasApart) {
  for (const auto& [name, canonical] : {std::pair{"", "Variable"},
                                        {"w", "w"},
                                        {"block_3/w_1", "block/w"},
                                        {"block_3", "block"},
                                        {"a_12/b", "a_12/b"},
                                        {"a_1b", "a_1b"},
                                        {"_1", ""},
                                        {"a_1_2", "a_1"},
                                        {"a_/b_", "a_/b_"}}) {
    EXPECT_EQ(internal::canonical_variable_name(name), canonical) << name;
  }
}

// --- One replica

TEST(RunOnOneDevice, CallsTheFunctionOnTheCallersThread) {
  OneDeviceStrategy strategy("CPU:1");
  const auto where = strategy.run([] {
    EXPECT_EQ(get_replica_context()->num_replicas_in_sync(), 1);
    return std::pair(std::this_thread::get_id(), Tensor({1.f}).device());
  });
  EXPECT_EQ(where.value().first, std::this_thread::get_id());
  EXPECT_EQ(where.value().second, device_name(1));
  EXPECT_THROW(strategy.run([] { throw std::domain_error("one"); }), std::domain_error);
}

TEST(RunByDefault, CallsTheFunctionAsItIs) {
  Strategy& strategy = get_strategy();
  EXPECT_EQ(strategy.run([](int x) { return x + get_replica_context()->num_replicas_in_sync(); }, 4)
                .value(),
            5);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  EXPECT_ERROR(Code::FailedPrecondition, "no devices", strategy.extended().worker_devices());
  EXPECT_ERROR(Code::FailedPrecondition, "no devices", strategy.extended().parameter_devices());
  EXPECT_ERROR(Code::Unimplemented, "broadcast_to",
               strategy.extended().broadcast_to(Tensor({1.f}), "CPU:0"));
  EXPECT_ERROR(Code::FailedPrecondition, "cannot be copied", strategy.deep_copy());
}

}  // namespace
}  // namespace cohort
