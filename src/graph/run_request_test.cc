#include "graph/run_request.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

TEST(FedPlaceholders, AreNotWaitedFor) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor p = placeholder(kFloat32, {}, "p");
  const Tensor defaulted = placeholder_with_default(p, {}, "defaulted");
  std::vector<Tensor> behind;
  for (const Tensor& before : {p, defaulted}) {
    const auto after = control_dependencies({before});
    behind.push_back(constant(1.f) + 1.f);
  }
  Session session;
  EXPECT_EQ(session.run(behind[0], {{p, 1.f}}).to<float>(), 2.f);
  EXPECT_EQ(session.run(behind[1], {{defaulted, 1.f}}).to<float>(), 2.f);
  EXPECT_ERROR(Code::InvalidArgument, "placeholder 'p' (float32, shape ()) is needed",
               session.run(behind[1]));
}

TEST(Placeholders, AreDescribedByASpec) {
  Graph graph;
  const auto building = graph.as_default();
  const TensorSpec spec{kInt64, {-1, 2}};
  const Tensor x = placeholder(spec, "x");
  EXPECT_EQ(x.name(), "x:0");
  EXPECT_EQ(TensorSpec::of(x), spec);
}

TEST(FedPlaceholders, OfAnotherDeviceAreNotWaitedFor) {
  internal::ensure_cpu_devices(2);
  Graph graph;
  const auto building = graph.as_default();
  std::optional<Tensor> p;
  {
    const auto on = device("/cpu:1");
    p.emplace(placeholder(kFloat32, {}, "p"));
  }
  const auto on = device("/cpu:0");
  const auto after = control_dependencies({*p});
  const Tensor behind = constant(1.f) + 1.f;
  EXPECT_EQ(Session().run(behind, {{*p, 1.f}}).to<float>(), 2.f);
}

// Its effect is what one waits for, whatever stands for its value.
TEST(FedEffects, AreWaitedForAllTheSame) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(1.f, {.name = "v"});
  const Tensor changed = v.assign(2.f);
  const auto after = control_dependencies({changed});
  const Tensor behind = constant(1.f) + 1.f;
  Session session;
  session.run(global_variables_initializer());
  session.run(behind, {{changed, 7.f}});
  EXPECT_EQ(session.run(v).to<float>(), 2.f);
}

}  // namespace
}  // namespace cohort
