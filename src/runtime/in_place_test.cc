// A kernel writes over an input at its last use. It never writes over a value that other code
// holds.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/torch.h"
#include "support/allocation_meter.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

using Floats = std::vector<float>;

Floats floats(const Tensor& x) { return x.to_vector<float>(); }

// Large enough not to lie in their handles, where nothing is written over.
const Shape kSquare = {4, 4};
const Tensor kOnes = Tensor::from(Floats(16, 1.f), kSquare);
const Tensor kHalves = Tensor::from(Floats(16, 0.5f), kSquare);

Tensor ramp(double start, double step) {
  return reshape(cast(range(16), kFloat32) * step + start, kSquare);
}

// A value that only the run itself holds: twos, of ones.
Tensor computed(const Tensor& x) { return matmul(x, kHalves); }

TEST(InPlace, AChainOfElementwiseOpsTakesMemoryOnce) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, kSquare);
  Tensor y = computed(x);
  for (int i = 0; i < 5; ++i) y = nn::relu(neg(y) * 0.5f + x - 1.f);
  Session session;
  const Callable run = session.make_callable({x}, {y});
  run({kOnes});
  const testing::AllocationMeter meter;
  const std::vector<Tensor> results = run({kOnes});
  EXPECT_EQ(meter.live_bytes(), 16 * static_cast<int64_t>(sizeof(float)));
  EXPECT_LE(meter.allocations(), 2);  // the product, and what the product's kernel needs
}

TEST(InPlace, GivesWhatEagerCodeGives) {
  const auto f = [](const Tensor& x) {
    Tensor y = computed(x);
    y = nn::elu(y - 3.f) + nn::leaky_relu(y) * nn::gelu(y);
    y = maximum(y, x) / (square(y) + 1.f) - minimum(y, 0.5f);
    y = nn::relu6(exp(tanh(y)) + sqrt(abs(y)) + sigmoid(neg(y)));
    return nn::softplus(nn::bias_add(y, Tensor({1.f, 2.f, 3.f, 4.f}))) + sum(y, 0);
  };
  const Tensor x = ramp(-1.5, 0.3);
  const auto traced = function(f);
  EXPECT_EQ(floats(traced(x)), floats(f(x)));
}

TEST(InPlace, GradientsAreWhatEagerCodeGives) {
  const auto f = [](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor h = computed(x);
    const Tensor y = nn::relu(h) + nn::relu6(h) + nn::elu(h) + nn::leaky_relu(h) + nn::gelu(h);
    return tape.gradient(y, x);
  };
  const Tensor x = ramp(-2, 0.3);
  const auto traced = function([&](Tensor given) -> Tensor { return f(given); });
  EXPECT_EQ(floats(traced(x)), floats(f(x)));
}

TEST(InPlace, FeedsStayAsTheyWere) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {16});
  const Tensor y = neg(x) + 1.f;
  Session session;
  const torch::Tensor theirs = torch::ones({16});
  session.run(y, {{x, Tensor(theirs)}});
  EXPECT_EQ(theirs[0].item<float>(), 1.f);
  std::vector<float> memory(16, 1.f);
  session.run(y, {{x, Tensor::from_memory(memory.data(), kFloat32, {16}, [] {})}});
  EXPECT_EQ(memory, Floats(16, 1.f));
}

TEST(InPlace, VariablesStayAsTheyWere) {
  Variable v(ones({16}));
  const auto negated = function([&] { return neg(v.read_value()); });
  EXPECT_EQ(floats(negated()), Floats(16, -1.f));
  EXPECT_EQ(floats(v.read_value()), Floats(16, 1.f));
}

TEST(InPlace, AssignedValuesAreNotWrittenOver) {
  Variable v(zeros(kSquare));
  const auto assign = function([&](Tensor x) {
    const Tensor value = computed(x);
    v.assign(value);
    return neg(value);
  });
  assign(kOnes);
  EXPECT_EQ(floats(v.read_value()), Floats(16, 2.f));
}

TEST(InPlace, ConstantsStayAsTheyWere) {
  const Tensor twos = Tensor::from(Floats(16, 2.f));
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {16});
  const Tensor y = constant(twos) * x;
  Session session;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(floats(session.run(y, {{x, twos}})), Floats(16, 4.f));
  }
}

TEST(InPlace, FetchedValuesAreNotWrittenOver) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, kSquare);
  const Tensor h = computed(x);
  const Tensor y = neg(h);
  Session session;
  const std::vector<Tensor> values = session.run({h, y}, {{x, kOnes}});
  EXPECT_EQ(floats(values[0]), Floats(16, 2.f));
  EXPECT_EQ(floats(values[1]), Floats(16, -2.f));
}

TEST(InPlace, ViewsKeepTheirMemory) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, kSquare);
  const Tensor h = computed(x);
  const Tensor flat = reshape(h, {16});
  const Tensor row = slice(h, {{.begin = 0, .end = 1}});
  const Tensor wide = broadcast_to(reshape(row, {1, 1, 4}), {3, 1, 4});
  Session session;
  const auto values = session.run({flat, row, neg(h), neg(flat), exp(wide)}, {{x, kOnes}});
  EXPECT_EQ(floats(values[0]), Floats(16, 2.f));
  EXPECT_EQ(floats(values[1]), Floats(4, 2.f));
  EXPECT_EQ(floats(values[2]), Floats(16, -2.f));
  EXPECT_EQ(floats(values[3]), Floats(16, -2.f));
  EXPECT_EQ(floats(values[4]), Floats(12, std::exp(2.f)));
}

TEST(InPlace, AValueUsedTwiceByOneOpIsRight) {
  const auto doubled = function([](Tensor x) {
    const Tensor h = computed(x);
    return h * h + h;
  });
  EXPECT_EQ(floats(doubled(kOnes)), Floats(16, 6.f));
}

TEST(InPlace, ArgumentsOfFunctionsInGraphsStayTheCallers) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, kSquare);
  const Tensor h = computed(x);
  const Tensor branch = cond(
      sum(h) > 0.f, [&] { return neg(h) * 2.f; }, [&] { return h; });
  Session session;
  const auto values = session.run({branch, h + 0.f}, {{x, kOnes}});
  EXPECT_EQ(floats(values[0]), Floats(16, -4.f));
  EXPECT_EQ(floats(values[1]), Floats(16, 2.f));
}

TEST(InPlace, SentValuesStayTheSenders) {
  internal::ensure_cpu_devices(2);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, kSquare);
  Tensor here;
  Tensor there;
  const Tensor h = computed(x);
  {
    auto on = device("CPU:1");
    there = neg(h) * 2.f;
  }
  here = neg(h) * 3.f;
  Session session;
  for (int i = 0; i < 20; ++i) {
    const auto values = session.run({here, there}, {{x, kOnes}});
    EXPECT_EQ(floats(values[0]), Floats(16, -6.f));
    EXPECT_EQ(floats(values[1]), Floats(16, -4.f));
  }
}

TEST(InPlace, WhoLooksForTheMakerOfANanIsTold) {
  const auto bad = function([](Tensor x) { return log(computed(x) - 4.f); });
  const NumericsGuard guard;
  const Status status = capture_status([&] { bad(kOnes); });
  EXPECT_NE(status.message.find("from finite inputs"), std::string::npos) << status.message;
}

}  // namespace
}  // namespace cohort
