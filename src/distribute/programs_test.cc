#include <gtest/gtest.h>

#include <sstream>

#include "cohort/cohort.h"

namespace cohort {
namespace {

template <typename... T>
std::string printed(const T&... values) {
  std::ostringstream out;
  (out << ... << values);
  return out.str();
}

TEST(Programs, P2PrintsEachReplicasResult) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto x = strategy.distribute_values_from_function(
      [](ValueContext context) { return Tensor({5.f + context.replica_id_in_sync_group}); });
  EXPECT_EQ(printed(strategy.run([](Tensor part) { return part * 2.0; }, x)),
            "PerReplica:{\n"
            "  0: Tensor([10.], shape=(1,), dtype=float32),\n"
            "  1: Tensor([12.], shape=(1,), dtype=float32)\n"
            "}");
  EXPECT_EQ(printed(strategy.run([] { return get_replica_context()->replica_id_in_sync_group(); })),
            "PerReplica:{\n  0: 0,\n  1: 1\n}");
}

TEST(Programs, P4TellsContextsApart) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto flags = [] {
    return printed(has_strategy(), in_cross_replica_context(), get_replica_context() != nullptr);
  };
  EXPECT_EQ(flags(), "001");
  const auto scope = strategy.scope();
  EXPECT_EQ(flags(), "110");
  EXPECT_EQ(printed(strategy.run([] { return in_cross_replica_context(); })), "0");
}

TEST(Programs, P6RunsOnOneDevice) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  Variable v(1.0f);
  EXPECT_EQ(v.device(), "/job:localhost/replica:0/task:0/device:CPU:0");
  int result = 0;
  for (int i = 0; i < 10; ++i) result += strategy.run([](int x) { return x * 2; }, i);
  EXPECT_EQ(result, 90);
}

}  // namespace
}  // namespace cohort
