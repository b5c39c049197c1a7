#include "cohort/native_function.h"

#include <gtest/gtest.h>

#include <atomic>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

std::atomic<int> calls_of_count{0};

Tensor twice(Tensor x) { return x * 2.f; }

std::vector<Tensor> cube_gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                                  std::span<const Tensor> output_gradients) {
  return {output_gradients[0] * square(inputs[0]) * 3.f, Tensor()};
}

COHORT_FUNCTION(test_twice, twice);
COHORT_FUNCTION(test_list, [](std::span<const Tensor> inputs) {
  Tensor total = inputs[0];
  for (const Tensor& more : inputs.subspan(1)) total = total + more;
  return std::vector<Tensor>{total, Tensor(static_cast<int64_t>(inputs.size()))};
});
COHORT_FUNCTION(test_structures,
                [](std::pair<Tensor, Tensor> pair, const std::vector<Tensor>& rest) {
                  return std::make_tuple(pair.first - pair.second, rest.at(0));
                });
COHORT_FUNCTION(test_count, [](Tensor) { ++calls_of_count; });
COHORT_FUNCTION(test_same, [](Tensor x) { return x; });
COHORT_FUNCTION(test_throws, [](Tensor) -> Tensor { throw std::runtime_error("disk full"); });
COHORT_FUNCTION(test_raises, [](Tensor x) -> Tensor { return matmul(x, x); });
COHORT_FUNCTION_WITH_GRADIENT(
    test_cube, [](Tensor x, Tensor) { return x * x * x; }, cube_gradient);
COHORT_FUNCTION_WITH_GRADIENT(
    test_bad_gradient, [](Tensor x) { return x * x; },
    [](std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>) {
      return std::vector<Tensor>{Tensor({1.f, 2.f, 3.f})};
    });
COHORT_FUNCTION(test_clash, [](Tensor x) { return x; });
const internal::NativeRegistration second_clash("test_clash", [](Tensor x) { return x; });

TEST(NativeFunction, RunsAtOnceOutsideOfGraphs) {
  EXPECT_EQ(
      call_native("test_twice", {Tensor({1.f, 2.f})}, {{kFloat32, {2}}})[0].to_vector<float>(),
      (std::vector<float>{2, 4}));
}

TEST(NativeFunction, IsOneNodeOfAGraph) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1});
  const std::vector<Tensor> results =
      call_native("test_list", {x, x, Tensor(1.f)}, {{kFloat32, {-1}}, {kInt64, {}}});
  EXPECT_EQ(graph.size(), 3u);  // x, the constant, the call
  Session session;
  const std::vector<Tensor> values = session.run(results, {{x, Tensor({1.f, 2.f})}});
  EXPECT_EQ(values[0].to_vector<float>(), (std::vector<float>{3, 5}));
  EXPECT_EQ(values[1].to<int64_t>(), 3);
  EXPECT_EQ(graph.size(), 3u);  // what the function computed is not part of it
}

TEST(NativeFunction, TakesAndReturnsStructures) {
  const std::vector<Tensor> results =
      call_native("test_structures", {Tensor(5.f), Tensor(2.f), Tensor(7)}, {{kFloat32}, {kInt32}});
  EXPECT_EQ(results[0].to<float>(), 3.f);
  EXPECT_EQ(results[1].to<int>(), 7);
}

TEST(NativeFunction, WithoutOutputsIsRunForItsEffect) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const std::vector<Tensor> done = call_native("test_count", {x}, {});
  ASSERT_EQ(done.size(), 1u);
  Session session;
  const int before = calls_of_count;
  session.run(done[0], {{x, 1.f}});
  session.run(done[0], {{x, 1.f}});
  EXPECT_EQ(calls_of_count, before + 2);
}

TEST(NativeFunction, IsCalledInTracedFunctions) {
  const auto traced = function([](Tensor x) {
    return call_native("test_twice", {x}, {{kFloat32, {}}})[0] + 1.f;
  });
  EXPECT_EQ(traced(Tensor(3.f)).to<float>(), 7.f);
  EXPECT_EQ(traced(Tensor(4.f)).to<float>(), 9.f);
}

TEST(NativeFunction, HasTheGradientThatItIsGiven) {
  GradientTape tape;
  const Tensor x = identity(Tensor(2.f));
  tape.watch(x);
  const Tensor y = call_native("test_cube", {x, Tensor(1)}, {{kFloat32, {}}})[0];
  EXPECT_EQ(y.to<float>(), 8.f);
  EXPECT_EQ(Tensor(tape.gradient(y, x)).to<float>(), 12.f);
}

TEST(NativeFunction, HasItsGradientInGraphs) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1});
  const Tensor y = call_native("test_cube", {x, Tensor(1)}, {{kFloat32, {-1}}})[0];
  const Tensor slope = gradients({sum(y)}, std::vector<Tensor>{x})[0];
  Session session;
  EXPECT_EQ(session.run(slope, {{x, Tensor({1.f, 2.f})}}).to_vector<float>(),
            (std::vector<float>{3, 12}));
}

TEST(NativeFunction, PassesGradientsOnAlthoughItReturnsItsInput) {
  GradientTape tape;
  const Tensor x = identity(Tensor(2.f));
  tape.watch(x);
  const Tensor y = call_native("test_same", {x}, {{kFloat32, {}}})[0] * x;
  EXPECT_ERROR(Code::Unimplemented, "'test_same' has no gradient", tape.gradient(y, x));
}

TEST(NativeFunction, SaysWhatIsWrongWithAGradient) {
  GradientTape tape;
  const Tensor x = identity(Tensor(2.f));
  tape.watch(x);
  const Tensor y = call_native("test_bad_gradient", {x}, {{kFloat32, {}}})[0];
  EXPECT_ERROR(Code::InvalidArgument, "returned float32 (3,) for the gradient of input 0",
               tape.gradient(y, x));
}

TEST(NativeFunction, IsLookedForWhenItRuns) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor y = call_native("elsewhere", {Tensor(1.f)}, {{kFloat32, {}}})[0];
  Session session;
  EXPECT_ERROR(Code::NotFound, "no function 'elsewhere'", session.run(y));
  EXPECT_ERROR(Code::NotFound, "must register it with COHORT_FUNCTION", session.run(y));
  const Tensor z = call_native("test_clash", {Tensor(1.f)}, {{kFloat32, {}}})[0];
  EXPECT_ERROR(Code::AlreadyExists, "'test_clash' is registered 2 times", session.run(z));
}

TEST(NativeFunction, MustReturnWhatWasDeclared) {
  const Tensor x({1.f, 2.f});
  EXPECT_ERROR(Code::InvalidArgument, "returned float32 (2,) for output 0, which is int64",
               call_native("test_twice", {x}, {{kInt64}}));
  EXPECT_ERROR(Code::InvalidArgument, "for output 0, which is float32 (3,)",
               call_native("test_twice", {x}, {{kFloat32, {3}}}));
  EXPECT_ERROR(Code::InvalidArgument, "returned 1 tensors, but 2 were declared",
               call_native("test_twice", {x}, {{kFloat32}, {kFloat32}}));
  EXPECT_ERROR(Code::InvalidArgument, "'test_twice' failed: the function takes 1 tensors, got 2",
               call_native("test_twice", {x, x}, {{kFloat32}}));
  EXPECT_ERROR(Code::InvalidArgument, "the function takes 2 or more tensors, got 1",
               call_native("test_structures", {x}, {{kFloat32}, {kFloat32}}));
}

TEST(NativeFunction, TurnsExceptionsIntoErrorsThatNameIt) {
  EXPECT_ERROR(Code::Unknown, "'test_throws' failed: disk full",
               call_native("test_throws", {Tensor(1.f)}, {{kFloat32}}));
  EXPECT_ERROR(Code::InvalidArgument, "'test_raises' failed: [MatMul]",
               call_native("test_raises", {ones({2, 3})}, {{kFloat32}}));
}

TEST(NativeFunction, TravelsByName) {
  Graph graph;
  {
    auto building = graph.as_default();
    const Tensor x = placeholder(kFloat32, {}, "x");
    call_native("test_twice", {x}, {{kFloat32, {}}});
  }
  const Graph read = Graph::deserialize(graph.serialize());
  Session session(read);
  EXPECT_EQ(
      session.run(read.tensor("NativeFunction"), {{read.tensor("x"), Tensor(4.f)}}).to<float>(),
      8.f);
}

}  // namespace
}  // namespace cohort
