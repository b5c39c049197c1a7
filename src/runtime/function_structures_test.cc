// What traced functions take and return besides tensors, and where they run.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "runtime/compiled_trace.h"
#include "support/expect_error.h"

namespace cohort {

struct Point {
  Tensor x;
  Tensor y;
};
template <>
struct Fields<Point> {
  static auto of(auto& point) { return std::tie(point.x, point.y); }
};

namespace {

TEST(FunctionStructures, StructsAreTakenAndReturned) {
  const auto swap = function([](const Point& p) { return Point{p.y * 2.f, p.x}; });
  for (const float first : {1.f, 3.f}) {
    const Point swapped = swap(Point{Tensor(first), Tensor(5.f)});
    EXPECT_EQ(swapped.x.to<float>(), 10.f);
    EXPECT_EQ(swapped.y.to<float>(), first);
  }
  EXPECT_EQ(swap.num_traces(), 1u);
}

TEST(FunctionStructures, ResultsHaveTheStructureOfTheTrace) {
  const auto nested = function([](const std::vector<Tensor>& list) {
    std::vector<std::vector<Tensor>> grouped{{list[0]}, {list[1] * 2.f, list[0]}, {}};
    return std::pair(grouped, std::map<std::string, Tensor>{{"sum", list[0] + list[1]}});
  });
  for (int i = 0; i < 2; ++i) {
    const auto [grouped, named] = nested(std::vector<Tensor>{Tensor(1.f), Tensor(2.f)});
    ASSERT_EQ(grouped.size(), 3u);
    EXPECT_EQ(grouped[1][0].to<float>(), 4.f);
    EXPECT_TRUE(grouped[2].empty());
    EXPECT_EQ(named.at("sum").to<float>(), 3.f);
  }
}

TEST(FunctionStructures, NumbersAreTracedAsTheyAre) {
  int traced = 0;
  const auto scale = function([&](Tensor x, double by, const std::string& name) {
    ++traced;
    return std::pair(x * by, name.size());
  });
  EXPECT_EQ(scale(Tensor(2.f), 3.0, std::string("abc")).first.to<float>(), 6.f);
  EXPECT_EQ(scale(Tensor(5.f), 3.0, std::string("abc")).second, 3u);
  EXPECT_EQ(traced, 1);
  EXPECT_EQ(scale(Tensor(2.f), 4.0, std::string("abc")).first.to<float>(), 8.f);
  EXPECT_EQ(scale(Tensor(2.f), 4.0, std::string("ab")).second, 2u);
  EXPECT_EQ(traced, 3);
}

TEST(FunctionStructures, GradientsAreReturned) {
  const Variable table(ones({4, 2}));
  const auto gradient_of = function([&](Tensor rows) {
    GradientTape tape;
    const Tensor loss = sum(gather(table, rows));
    return tape.gradient(loss, table);
  });
  for (int i = 0; i < 2; ++i) {
    const Gradient gradient = gradient_of(Tensor({int64_t{1}, int64_t{3}}));
    EXPECT_EQ(gradient.dense().to_vector<float>(), (std::vector<float>{0, 0, 1, 1, 0, 0, 1, 1}));
  }
}

TEST(FunctionStructures, CallsWithOtherTypesHaveTheirOwnTraces) {
  const auto size_of_first = function([](const auto& value) { return value; });
  EXPECT_EQ(size_of_first(Tensor(1.f)).to<float>(), 1.f);
  EXPECT_EQ(size_of_first(std::vector<Tensor>{Tensor(2.f)}).at(0).to<float>(), 2.f);
  EXPECT_EQ(size_of_first(std::array<Tensor, 1>{Tensor(3.f)})[0].to<float>(), 3.f);
  EXPECT_EQ(size_of_first.num_traces(), 3u);
}

class FunctionDevices : public ::testing::Test {
 protected:
  MirroredStrategy makes_devices_{"CPU:0", "CPU:1"};
};

TEST_F(FunctionDevices, NodesRunWhereTheCodeAsked) {
  const auto both = function([](Tensor x) {
    const Tensor here = x + 1.f;
    const auto on = device("CPU:1");
    return std::pair(here, here * 10.f);
  });
  for (int i = 0; i < 2; ++i) {
    const auto [here, there] = both(Tensor({1.f}));
    EXPECT_EQ(here.to<float>(), 2.f);
    EXPECT_EQ(there.to<float>(), 20.f);
    EXPECT_EQ(there.device(), "/job:localhost/replica:0/task:0/device:CPU:1");
    EXPECT_EQ(here.device(), "/job:localhost/replica:0/task:0/device:CPU:0");
  }
}

TEST_F(FunctionDevices, ArgumentsAreReturnedAsTheyAre) {
  const auto pass = function([](Tensor x) {
    const auto on = device("CPU:1");
    return std::pair(x, x * 2.f);
  });
  EXPECT_EQ(pass(Tensor({1.f})).first.to<float>(), 1.f);
}

TEST_F(FunctionDevices, EffectsKeepTheirOrderBetweenDevices) {
  Variable total(0.f);
  const auto change = function([&](Tensor x) {
    total.assign(x);
    {
      const auto on = device("CPU:1");
      total.assign_add(total * 2.f);
    }
    return total.read_value();
  });
  EXPECT_EQ(change(Tensor(2.f)).to<float>(), 6.f);
  EXPECT_EQ(change(Tensor(5.f)).to<float>(), 15.f);
}

TEST_F(FunctionDevices, ADeviceThatIsNotThereIsAnError) {
  const auto lost = function([](Tensor x) {
    const auto on = device("GPU:7");
    return x * 2.f;
  });
  EXPECT_ERROR(Code::InvalidArgument, "GPU:7", lost(Tensor({1.f})));
}

TEST_F(FunctionDevices, EachDeviceHasItsPart) {
  const auto traced_by = [](const internal::TracedBody& body) {
    return internal::Trace("test", {{kFloat32, {1}}}, internal::value_device(), body);
  };
  const internal::Trace alone = traced_by([](std::span<const Tensor> x) {
    return internal::TracedResults{{x[0] * 2.f}, nullptr};
  });
  EXPECT_EQ(alone.parts(), nullptr);
  const internal::Trace towers = traced_by([](std::span<const Tensor> x) {
    const Tensor first = x[0] * 2.f;
    const auto on = device("CPU:1");
    return internal::TracedResults{{first, x[0] * 3.f}, nullptr};
  });
  ASSERT_NE(towers.parts(), nullptr);
  EXPECT_EQ(towers.parts()->parts.size(), 2u);
}

}  // namespace
}  // namespace cohort
