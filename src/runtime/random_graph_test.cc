// Graphs and functions draw new numbers in every run, and the same numbers again from the same
// seed.

#include <gtest/gtest.h>

#include <set>

#include "cohort/cohort.h"

namespace cohort {
namespace {

using Floats = std::vector<float>;

Floats floats(const Tensor& x) { return x.to_vector<float>(); }

Floats eager_draw(uint64_t seed) {
  random::set_seed(seed);
  return floats(random::uniform({4}));
}

// A graph with one draw, built from the seed.
struct DrawingGraph {
  Graph graph;
  Tensor drawn;

  explicit DrawingGraph(uint64_t seed) {
    random::set_seed(seed);
    auto building = graph.as_default();
    drawn = random::uniform({4});
  }
};

TEST(RandomInGraph, EveryRunDrawsNewNumbers) {
  const DrawingGraph built(1);
  Session session(built.graph);
  const Floats first = floats(session.run(built.drawn));
  const Floats second = floats(session.run(built.drawn));
  EXPECT_EQ(first, eager_draw(1));
  EXPECT_NE(first, second);
  EXPECT_NE(second, floats(session.run(built.drawn)));
}

TEST(RandomInGraph, ANewSessionDrawsTheSameSequence) {
  const DrawingGraph built(1);
  const DrawingGraph again(1);
  const DrawingGraph other(2);
  Session a(built.graph);
  Session b(built.graph);
  Session c(again.graph);
  Session d(other.graph);
  for (int i = 0; i < 3; ++i) {
    const Floats numbers = floats(a.run(built.drawn));
    EXPECT_EQ(numbers, floats(b.run(built.drawn)));
    EXPECT_EQ(numbers, floats(c.run(again.drawn)));
    EXPECT_NE(numbers, floats(d.run(other.drawn)));
  }
}

TEST(RandomInGraph, AReadGraphDrawsTheSameSequence) {
  const DrawingGraph built(1);
  const Graph read = Graph::deserialize(built.graph.serialize());
  const Tensor drawn = read.tensor("RandomUniform");
  Session a(built.graph);
  Session b(read);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(floats(a.run(built.drawn)), floats(b.run(drawn)));
}

TEST(RandomInGraph, RunsThatDrawNothingDoNotMatter) {
  random::set_seed(1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor drawn = random::uniform({4});
  const Tensor other = constant(1.f);
  Session a;
  Session b;
  a.run(drawn);
  b.run(drawn);
  b.run(other);
  EXPECT_EQ(floats(a.run(drawn)), floats(b.run(drawn)));
}

TEST(RandomInGraph, DrawsOfOneRunDiffer) {
  random::set_seed(1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor a = random::uniform({4});
  const Tensor b = random::uniform({4});
  Session session;
  for (int i = 0; i < 3; ++i) {
    const auto values = session.run({a, b});
    EXPECT_NE(floats(values[0]), floats(values[1]));
  }
}

TEST(RandomInGraph, DropoutAndShuffleChangeToo) {
  random::set_seed(1);
  Graph graph;
  Tensor x;
  {
    auto building = graph.as_default();
    x = placeholder(kFloat32, {64});
  }
  const Tensor dropped = nn::dropout(x);  // outside of the scope: the input says which graph
  const Tensor shuffled = random::shuffle(x);
  Session session(graph);
  const Feeds feeds{{x, range(64, kFloat32) + 1.f}};
  const auto first = session.run({dropped, shuffled}, feeds);
  const auto second = session.run({dropped, shuffled}, feeds);
  EXPECT_NE(floats(first[0]), floats(second[0]));
  EXPECT_NE(floats(first[1]), floats(second[1]));
}

TEST(RandomInGraph, TheGradientSeesTheMaskOfItsRun) {
  random::set_seed(1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {64});
  const Tensor y = nn::dropout(x);
  const Tensor g = gradients({y}, {x})[0].dense();
  Session session;
  for (int i = 0; i < 3; ++i) {
    const auto values = session.run({y, g}, {{x, Tensor::from(Floats(64, 1.f))}});
    EXPECT_EQ(floats(values[0]), floats(values[1]));
  }
}

TEST(RandomInFunction, EveryCallDrawsNewNumbersAndTheSeedSaysWhich) {
  const auto sequence = [](bool under_tape) {
    random::set_seed(3);
    const auto draw = function([](Tensor x) { return x + random::uniform({4}); });
    const Tensor zero({0.f, 0.f, 0.f, 0.f});
    std::vector<Floats> drawn;
    for (int i = 0; i < 3; ++i) {
      GradientTape tape;
      if (under_tape) tape.watch(zero);
      drawn.push_back(floats(draw(zero)));
    }
    return drawn;
  };
  for (const bool under_tape : {false, true}) {
    const auto drawn = sequence(under_tape);
    EXPECT_EQ(drawn[0], eager_draw(3));
    EXPECT_NE(drawn[0], drawn[1]);
    EXPECT_NE(drawn[1], drawn[2]);
    EXPECT_EQ(drawn, sequence(under_tape));
  }
}

TEST(RandomInFunction, TwoCallsInsideOfOneGraphDiffer) {
  random::set_seed(3);
  const auto draw = function([](Tensor x) { return x + random::uniform({4}); });
  const auto both = function([&](Tensor x) { return std::pair(draw(x), draw(x)); });
  const Tensor zero({0.f, 0.f, 0.f, 0.f});
  std::set<Floats> seen;
  for (int i = 0; i < 3; ++i) {
    const auto [a, b] = both(zero);
    seen.insert(floats(a));
    seen.insert(floats(b));
  }
  EXPECT_EQ(seen.size(), 6u);
}

}  // namespace
}  // namespace cohort
