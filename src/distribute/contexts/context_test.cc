#include "distribute/contexts/context.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

// What the queries answer, in one word.
std::string answers(const Strategy& strategy) {
  const std::string current = &get_strategy() == &strategy ? "own" : "other";
  return current + (has_strategy() ? " strategy" : " none") +
         (in_cross_replica_context() ? " cross" : " replica") +
         (get_replica_context() != nullptr ? " context" : " null");
}

TEST(Contexts, AnswerQueriesByWhereTheThreadIs) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  Strategy& standard = get_strategy();
  EXPECT_EQ(answers(standard), "own none replica context");
  {
    const auto scope = s.scope();
    EXPECT_EQ(answers(s), "own strategy cross null");
    const auto inside = s.run([&] {
      const std::string replica = answers(s);
      const std::string merged =
          get_replica_context()->merge_call([&](Strategy&) { return answers(s); });
      return replica + "; " + merged;
    });
    EXPECT_EQ(inside.value(), "own strategy replica context; own strategy cross null");
  }
  EXPECT_EQ(answers(standard), "own none replica context");
}

TEST(Contexts, TheDefaultContextMergesWithTheDefaultStrategy) {
  Strategy& standard = get_strategy();
  const std::string merged = get_replica_context()->merge_call([&](Strategy& given) {
    EXPECT_EQ(&given, &standard);
    return answers(standard);
  });
  EXPECT_EQ(merged, "own none cross null");
  EXPECT_EQ(get_replica_context()->replica_id_in_sync_group(), 0);
  EXPECT_EQ(get_replica_context()->num_replicas_in_sync(), 1);
}

TEST(Contexts, BeginOutsideInANewThread) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  const auto scope = s.scope();
  bool inherited = true;
  std::thread([&] { inherited = has_strategy(); }).join();
  EXPECT_FALSE(inherited);
}

// Everything that a guard protects, everywhere that matters.
TEST(Contexts, GuardsLetThroughWhatIsAllowedThere) {
  MirroredStrategy s1({"CPU:0", "CPU:1"});
  MirroredStrategy s2({"CPU:0", "CPU:1"});
  const Variable v1 = s1.create([] { return Variable(1.f); });
  const auto parts = s1.distribute_values_from_function([](ValueContext) { return Tensor(1.f); });
  ReplicaContext* stored = nullptr;
  s1.run([&] {
    if (get_replica_context()->local_replica() == 0) stored = get_replica_context();
  });

  const auto outside = [](const std::function<void()>& act) { act(); };
  const auto in_scope1 = [&](const std::function<void()>& act) {
    const auto scope = s1.scope();
    act();
  };
  const auto in_scope2 = [&](const std::function<void()>& act) {
    const auto scope = s2.scope();
    act();
  };
  const auto in_run1 = [&](const std::function<void()>& act) { s1.run([&] { act(); }); };
  const auto in_merge1 = [&](const std::function<void()>& act) {
    s1.run([&] { get_replica_context()->merge_call([&](Strategy&) { act(); }); });
  };
  const auto in_default_merge = [&](const std::function<void()>& act) {
    get_replica_context()->merge_call([&](Strategy&) { act(); });
  };

  const std::function<void()> reduce = [&] { s1.reduce(ReduceOp::Sum, parts); };
  const std::function<void()> gather = [&] { s1.gather(Tensor({1.f}), 0); };
  const std::function<void()> reduce_to = [&] {
    s1.extended().reduce_to(ReduceOp::Sum, parts, "CPU:0");
  };
  const std::function<void()> batch_reduce_to = [&] {
    const std::vector<ReduceRequest> requests{{parts, Destinations("CPU:0")}};
    s1.extended().batch_reduce_to(ReduceOp::Sum, requests);
  };
  const std::function<void()> broadcast_to = [&] {
    s1.extended().broadcast_to(Tensor({1.f}), "CPU:0");
  };
  const std::function<void()> update_non_slot = [&] {
    s1.extended().update_non_slot("CPU:0", [] { return Tensor(1.f); });
  };
  const std::function<void()> for_each = [&] {
    s1.extended().call_for_each_replica([](ReplicaContext&) {});
  };
  const std::function<void()> run = [&] { s1.run([] {}); };
  const std::function<void()> scope = [&] { const StrategyScope opened(s1); };
  const std::function<void()> colocate = [&] {
    const auto where = s1.extended().colocate_vars_with(v1);
  };
  const std::function<void()> use_stored = [&] { stored->devices(); };
  const std::function<void()> merge_stored = [&] { stored->merge_call([](Strategy&) {}); };

  struct Case {
    const char* what;
    const std::function<void()>& act;
    std::function<void(const std::function<void()>&)> place;
    const char* fragment;  // of the error; "" = allowed
  };
  const char* const kMixing = "do not mix";
  const char* const kCross = "needs the cross-replica context";
  const char* const kScope = "inside the scope of";
  std::vector<Case> cases;
  for (const auto& [what, act] : {std::pair{"reduce", &reduce},
                                  {"gather", &gather},
                                  {"reduce_to", &reduce_to},
                                  {"batch_reduce_to", &batch_reduce_to},
                                  {"broadcast_to", &broadcast_to},
                                  {"update_non_slot", &update_non_slot},
                                  {"call_for_each_replica", &for_each},
                                  {"run", &run},
                                  {"scope", &scope}}) {
    cases.push_back({what, *act, outside, ""});
    cases.push_back({what, *act, in_scope1, ""});
    cases.push_back({what, *act, in_merge1, ""});
    cases.push_back({what, *act, in_scope2, kMixing});
    cases.push_back({what, *act, in_run1, kCross});
    const bool opens = act == &run || act == &scope;
    cases.push_back({what, *act, in_default_merge, opens ? "" : kScope});
  }
  cases.push_back({"colocate", colocate, in_scope1, ""});
  cases.push_back({"colocate", colocate, in_run1, ""});
  cases.push_back({"colocate", colocate, outside, kScope});
  cases.push_back({"colocate", colocate, in_scope2, kMixing});
  cases.push_back({"devices", use_stored, outside, "outside of the run()"});
  cases.push_back({"devices", use_stored, in_scope1, "inside the function given to run()"});
  cases.push_back({"merge_call", merge_stored, in_merge1, "inside the function given to run()"});
  for (const Case& entry : cases) {
    const Status status = error_of([&] { entry.place(entry.act); });
    const bool allowed = std::string(entry.fragment).empty();
    EXPECT_EQ(status.code, allowed ? Code::Ok : Code::FailedPrecondition)
        << entry.what << ": " << status.to_string();
    EXPECT_NE(status.message.find(entry.fragment), std::string::npos)
        << entry.what << ": " << status.message;
    EXPECT_FALSE(has_strategy()) << entry.what;
  }
}

TEST(Contexts, OneReplicasContextIsNotAnothers) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  const auto contexts = s.run([] { return get_replica_context(); });
  EXPECT_ERROR(Code::FailedPrecondition, "called by another replica",
               s.run([&] { contexts[1 - get_replica_context()->local_replica()]->devices(); }));
}

TEST(StrategyScopes, Nest) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  StrategyScope scope(s);
  scope.enter();
  scope.close();
  EXPECT_TRUE(has_strategy());
  scope.close();
  EXPECT_FALSE(has_strategy());
  scope.enter();
  EXPECT_TRUE(has_strategy());
}

TEST(StrategyScopes, OfOneStrategyInterleave) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  StrategyScope a(s);
  StrategyScope b(s);
  a.close();
  EXPECT_FALSE(has_strategy());
  b.close();
  b.enter();
  EXPECT_TRUE(has_strategy());
  b.close();
  EXPECT_ERROR(Code::FailedPrecondition, "is not open", b.close());
}

TEST(StrategyScopes, SayWhatIsUnbalancedAndStayOpen) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  StrategyScope scope(s);
  std::optional<DeviceScope> on;
  on.emplace("CPU:0");
  EXPECT_ERROR(Code::FailedPrecondition, "device scope that was opened inside", scope.close());
  on.reset();
  std::optional<VariableCreatorScope> creator;
  creator.emplace(
      [](const NextCreator& next, const VariableRequest& request) { return next(request); });
  EXPECT_ERROR(Code::FailedPrecondition, "variable creator scope", scope.close());
  creator.reset();
  std::optional<NameScope> name;
  name.emplace("layer");
  EXPECT_ERROR(Code::FailedPrecondition, "name scope", scope.close());
  EXPECT_TRUE(has_strategy());
  name.reset();
  scope.close();
  EXPECT_FALSE(has_strategy());
}

TEST(StrategyScopes, EndWhenDestroyedInAnyOrder) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  std::optional<StrategyScope> scope;
  scope.emplace(s);
  std::optional<DeviceScope> on;
  on.emplace("CPU:1");
  scope.reset();
  EXPECT_FALSE(has_strategy());
  on.reset();
  EXPECT_EQ(Tensor({1.f}).device(), "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_FALSE(s.extended().variable_created_in_scope(Variable(1.f)));
}

TEST(StrategyScopes, OfTheDefaultStrategyChangeNothing) {
  Strategy& standard = get_strategy();
  MirroredStrategy s({"CPU:0", "CPU:1"});
  {
    const auto scope = standard.scope();
    EXPECT_EQ(answers(standard), "own none replica context");
    EXPECT_TRUE(standard.extended().variable_created_in_scope(Variable(1.f)));
    const auto inner = s.scope();
    EXPECT_EQ(answers(s), "own strategy cross null");
    EXPECT_ERROR(Code::FailedPrecondition, "do not mix", Variable(1.f));
  }
  const auto scope = s.scope();
  EXPECT_ERROR(Code::FailedPrecondition, "do not mix", StrategyScope(standard));
}

TEST(SetStrategy, OpensAScopeUntilTheNextCall) {
  MirroredStrategy s1({"CPU:0", "CPU:1"});
  MirroredStrategy s2({"CPU:0", "CPU:1"});
  set_strategy(&s1);
  EXPECT_EQ(&get_strategy(), &s1);
  set_strategy(&s2);
  EXPECT_EQ(&get_strategy(), &s2);
  set_strategy(nullptr);
  EXPECT_FALSE(has_strategy());
  set_strategy(nullptr);
}

TEST(SetStrategy, IsRefusedInsideAScope) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  const auto scope = s.scope();
  EXPECT_ERROR(Code::FailedPrecondition, "set_strategy", set_strategy(&s));
  EXPECT_ERROR(Code::FailedPrecondition, "set_strategy", set_strategy(nullptr));
}

TEST(SetStrategy, EndsWithTheStrategyAndWithTheThread) {
  {
    MirroredStrategy s({"CPU:0", "CPU:1"});
    set_strategy(&s);
  }
  EXPECT_FALSE(has_strategy());
  MirroredStrategy s({"CPU:0", "CPU:1"});
  std::thread([&] { set_strategy(&s); }).join();
  EXPECT_FALSE(has_strategy());
}

TEST(Variables, BelongToTheStrategyWhoseScopeTheyWereMadeIn) {
  MirroredStrategy s({"CPU:0", "CPU:1"});
  OneDeviceStrategy one("CPU:0");
  Strategy& standard = get_strategy();
  const Variable outside(1.f);
  const Variable inside = s.create([] { return Variable(1.f); });
  const Variable single = one.create([] { return Variable(1.f); });
  const auto made = s.run([] { return Variable(2.f); });
  for (const auto& [strategy, expected] :
       {std::pair<Strategy*, std::string>{&s, "0101"}, {&one, "0010"}, {&standard, "1000"}}) {
    std::string found;
    for (const Variable& variable : {outside, inside, single, made.value()}) {
      found += strategy->extended().variable_created_in_scope(variable) ? '1' : '0';
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(UpdateScopes, SayWhichCopyIsMeant) {
  EXPECT_EQ(internal::current_component(), std::nullopt);
  const internal::UpdateScope outer(1);
  {
    const internal::UpdateScope inner(0);
    EXPECT_EQ(internal::current_component(), size_t{0});
  }
  EXPECT_EQ(internal::current_component(), size_t{1});
}

}  // namespace
}  // namespace cohort
