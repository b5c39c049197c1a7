// Iterators in traced functions and sessions.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cohort/cohort.h"
#include "cohort/dataset.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"
#include "ops/element_source.h"
#include "support/expect_error.h"
#include "support/find_op.h"

namespace cohort {
namespace {

using data::Element;

data::Dataset numbers() { return data::from_tensor_slices(Tensor({1.f, 2.f, 3.f})); }

TEST(TracedIterator, GivesTheNextElementAtEachCall) {
  Iterator it = numbers().iterator();
  int traced = 0;
  const auto step = function([&](Iterator from) {
    ++traced;
    return Tensor(from.next()) * 10.f;
  });
  EXPECT_EQ(step(it).to<float>(), 10.f);
  EXPECT_EQ(it.next().to<float>(), 2.f);
  EXPECT_EQ(step(it).to<float>(), 30.f);
  EXPECT_EQ(traced, 1);
}

TEST(TracedIterator, MayBeCaptured) {
  Iterator it = numbers().iterator();
  const auto step = function([&] { return Tensor(it.next()) + Tensor(it.next()); });
  EXPECT_EQ(step().to<float>(), 3.f);
  EXPECT_EQ(it.next().to<float>(), 3.f);
}

TEST(TracedIterator, UpdatesAVariableInAStepThatEndsWithTheData) {
  Variable v(0.f);
  const auto replica = [&](Tensor x) {
    v.assign_add(x);
    return v.read_value();
  };
  const auto step = function([&](Iterator it) { return replica(it.next()); });
  Iterator it = data::from_tensor_slices(Tensor({1.f, 1.f, 1.f})).iterator();
  for (const float expected : {1.f, 2.f, 3.f}) EXPECT_EQ(step(it).to<float>(), expected);
  EXPECT_ERROR(Code::OutOfRange, "[IteratorNext] iterator 'iterator_", step(it));
  EXPECT_ERROR(Code::OutOfRange, "iterator_test.cc", step(it));
  EXPECT_EQ(v.read_value().to<float>(), 3.f);
  EXPECT_EQ(step.num_traces(), 1u);
}

TEST(TracedIterator, TakesAnElementThatNobodyUses) {
  Iterator it = numbers().iterator();
  const auto skip = function([](Iterator from) { from.next(); });
  skip(it);
  EXPECT_EQ(it.next().to<float>(), 2.f);
}

TEST(TracedIterator, IsTracedPerKindOfElementsAndNotPerIterator) {
  const auto step = function([](Iterator it) { return Tensor(it.next()); });
  Iterator first = numbers().iterator();
  Iterator second = numbers().iterator();
  EXPECT_EQ(step(first).to<float>(), 1.f);
  EXPECT_EQ(step(second).to<float>(), 1.f);
  EXPECT_EQ(step(first).to<float>(), 2.f);
  EXPECT_EQ(step.num_traces(), 1u);
  Iterator integers = data::range(3).iterator();
  EXPECT_EQ(step(integers).dtype(), kInt64);
  Iterator rows = numbers().batch(2).iterator();
  EXPECT_EQ(step(rows).shape(), (Shape{2}));
  EXPECT_EQ(step(rows).shape(), (Shape{1}));
  EXPECT_EQ(step.num_traces(), 3u);
}

TEST(TracedIterator, TellsElementsOfOtherStructureApart) {
  const Tensor a({1.f, 2.f});
  const Tensor b({3.f, 4.f});
  const auto step = function([](Iterator it) {
    const Element element = it.next();
    return element.is_map() ? Tensor(element["y"]) - Tensor(element["x"])
                            : Tensor(element[0]) - Tensor(element[1]);
  });
  Iterator pairs = data::from_tensor_slices(a, b).iterator();
  Iterator named = data::from_tensor_slices(Element::map({{"x", a}, {"y", b}})).iterator();
  EXPECT_EQ(step(pairs).to<float>(), -2.f);
  EXPECT_EQ(step(named).to<float>(), 2.f);
}

TEST(TracedIterator, MayBeInAStructureOfArguments) {
  const auto step = function([](std::vector<Iterator> all, Tensor scale) {
    Tensor sum = scale;
    for (Iterator& it : all) sum = sum + Tensor(it.next());
    return sum;
  });
  const std::vector<Iterator> both{numbers().iterator(), numbers().skip(1).iterator()};
  EXPECT_EQ(step(both, Tensor(10.f)).to<float>(), 13.f);
  EXPECT_EQ(step(both, Tensor(10.f)).to<float>(), 15.f);
}

TEST(TracedIterator, MayBePassedToAFunctionInside) {
  const auto inner = function([](Iterator it) { return Tensor(it.next()); });
  const auto outer = function([&](Iterator it) {
    const Tensor first = inner(it);
    return first - inner(it);
  });
  Iterator floats = numbers().iterator();
  Iterator integers = data::range(5, 8).iterator();
  EXPECT_EQ(outer(floats).to<float>(), -1.f);
  EXPECT_EQ(outer(integers).to<int64_t>(), -1);
  EXPECT_EQ(inner.num_traces(), 2u);
}

TEST(TracedIterator, MayBeReadInALoopAndInABranch) {
  Iterator it = data::range(10).iterator();
  const auto step = function([](Iterator from, Tensor times) {
    const Tensor zero(int64_t{0});
    const std::vector<Tensor> end = while_loop(
        [&](std::span<const Tensor> state) { return state[0] < times; },
        [&](std::span<const Tensor> state) {
          return std::vector<Tensor>{state[0] + int64_t{1}, state[1] + Tensor(from.next())};
        },
        {zero, zero});
    return cond(
        end[1] > int64_t{3}, [&] { return std::vector<Tensor>{end[1]}; },
        [&] { return std::vector<Tensor>{end[1] + Tensor(from.next()) * int64_t{100}}; })[0];
  });
  EXPECT_EQ(step(it, Tensor(int64_t{3})).to<int64_t>(), 0 + 1 + 2 + 300);
  EXPECT_EQ(step(it, Tensor(int64_t{3})).to<int64_t>(), 4 + 5 + 6);
  EXPECT_EQ(it.next().to<int64_t>(), 7);
}

TEST(TracedIterator, GivesEachElementToOneOfSeveralThreads) {
  constexpr int64_t kCount = 400;
  Iterator it = data::range(kCount).iterator();
  const auto step = function([](Iterator from) { return Tensor(from.next()) * int64_t{2}; });
  std::atomic<int64_t> sum{0};
  const auto work = [&] {
    for (int64_t i = 0; i < kCount / 4; ++i) sum += step(it).to<int64_t>();
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  }
  EXPECT_EQ(sum, kCount * (kCount - 1));
}

TEST(TracedIterator, IsReadUnderATape) {
  Variable w(3.f);
  Iterator it = numbers().iterator();
  const auto loss = function([&](Iterator from) { return Tensor(from.next()) * w * w; });
  GradientTape tape;
  EXPECT_EQ(Tensor(tape.gradient(loss(it), w)).to<float>(), 6.f);
  EXPECT_EQ(it.next().to<float>(), 2.f);
}

TEST(TracedIterator, ShowsOneElementWhereOnlyRunningTellsWhatTheyAre) {
  Iterator it = numbers().map([](Tensor x) { return stack({x, x * 2.f}); }).iterator();
  const auto step = function([](Iterator from) { return sum(from.next().tensor()); });
  EXPECT_EQ(step(it).to<float>(), 3.f);
  EXPECT_EQ(step(it).to<float>(), 6.f);
  Iterator none = numbers().take(0).map([](Tensor x) { return x * 2.f; }).iterator();
  EXPECT_ERROR(Code::FailedPrecondition, "is empty", step(none));
}

TEST(OptionalElement, TellsWhereTheDataEnds) {
  const auto next_or_minus_one = [](Iterator it) {
    const auto next = it.next_as_optional();
    return cond(
        next.has_value(), [&] { return Tensor(next.value()); }, [] { return Tensor(-1.f); });
  };
  const auto traced = function(next_or_minus_one);
  const auto walk = [](const auto& next) {
    Iterator it = numbers().take(2).iterator();
    std::vector<float> seen;
    for (int i = 0; i < 4; ++i) seen.push_back(next(it).template to<float>());
    return seen;
  };
  EXPECT_EQ(walk(next_or_minus_one), (std::vector<float>{1, 2, -1, -1}));
  EXPECT_EQ(walk(traced), (std::vector<float>{1, 2, -1, -1}));
  EXPECT_EQ(traced.num_traces(), 1u);
}

TEST(OptionalElement, IsAnErrorToReadWhereThereIsNone) {
  Iterator none = numbers().take(0).iterator();
  EXPECT_ERROR(Code::InvalidArgument, "has ended", none.next_as_optional().value());
  const auto careless = function([](Iterator it) { return Tensor(it.next_as_optional().value()); });
  Iterator one = numbers().take(1).iterator();
  EXPECT_EQ(careless(one).to<float>(), 1.f);
  EXPECT_ERROR(Code::InvalidArgument, "has ended", careless(one));
}

TEST(OptionalElement, MayBeOfAnyStructure) {
  const auto step = function([](Iterator it) {
    const auto next = it.next_as_optional();
    return cond(
        next.has_value(),
        [&] {
          const auto [rows, names] = next.value().unpack<2>();
          return std::vector<Tensor>{sum(rows), size(names)};
        },
        [] {
          return std::vector<Tensor>{Tensor(-1.f), Tensor(int64_t{-1})};
        });
  });
  Iterator it = data::from_tensor_slices(Tensor({1.f, 2.f, 3.f}), Tensor({"a", "b", "c"}))
                    .batch(2)
                    .iterator();
  EXPECT_EQ(step(it)[0].to<float>(), 3.f);
  EXPECT_EQ(step(it)[1].to<int64_t>(), 1);
  EXPECT_EQ(step(it)[1].to<int64_t>(), -1);
}

TEST(TracedLoop, TakesWhatIsLeft) {
  const auto total = function([](Iterator it) {
    return it.reduce({Tensor(0.f)}, [](std::span<const Tensor> state, const Element& element) {
      return std::vector<Tensor>{state[0] + element.tensor()};
    })[0];
  });
  Iterator it = numbers().iterator();
  it.next();
  EXPECT_EQ(total(it).to<float>(), 2.f + 3.f);
  EXPECT_EQ(total(it).to<float>(), 0.f);
  EXPECT_EQ(total(numbers().take(2).iterator()).to<float>(), 3.f);
  EXPECT_EQ(total.num_traces(), 1u);
}

TEST(TracedLoop, HasTheEffectsOfEachElement) {
  Variable sum(0.f);
  const auto add_all = [&](Iterator it) {
    return it.for_each([&](const Element& element) { sum.assign_add(element.tensor()); });
  };
  EXPECT_EQ(add_all(numbers().take(3).iterator()).to<int64_t>(), 3);
  const auto traced = function(add_all);
  EXPECT_EQ(traced(numbers().take(2).iterator()).to<int64_t>(), 2);
  EXPECT_EQ(Tensor(sum).to<float>(), 6.f + 3.f);
}

TEST(TracedLoop, WalksOverADatasetAnewInEachCall) {
  const data::Dataset dataset = numbers();
  const auto total = function([&] {
    return dataset.iterator().reduce(
        {Tensor(0.f)}, [](std::span<const Tensor> state, const Element& element) {
          return std::vector<Tensor>{state[0] * 10.f + element.tensor()};
        })[0];
  });
  for (int call = 0; call < 3; ++call) EXPECT_EQ(total().to<float>(), 123.f);
  EXPECT_EQ(total.num_traces(), 1u);
}

TEST(TracedLoop, LosesNothingThatTracingLookedAt) {
  int64_t made = 0;
  const data::Dataset live =
      data::range(3).map([&](Tensor) { return Tensor(static_cast<float>(made++)); });
  const auto total = function([&] {
    return live.iterator().reduce({Tensor(0.f)},
                                  [](std::span<const Tensor> state, const Element& element) {
                                    return std::vector<Tensor>{state[0] + element.tensor()};
                                  })[0];
  });
  EXPECT_EQ(total().to<float>(), 0.f + 1.f + 2.f);
  EXPECT_EQ(total().to<float>(), 3.f + 4.f + 5.f);
}

TEST(TracedLoop, IsAnOrdinaryLoopWhileAGraphIsBuilt) {
  Graph graph;
  const auto building = graph.as_default();
  int64_t seen = 0;
  numbers().take(3).iterator().for_each([&](const Element&) { ++seen; });
  EXPECT_EQ(seen, 3);
}

TEST(TracedIterator, RefusesWhatCannotBeTraced) {
  Iterator it = numbers().iterator();
  const auto optional = function([&] { return it.next_optional()->tensor(); });
  EXPECT_ERROR(Code::FailedPrecondition, "call next_as_optional()", optional());
  const auto loop = function([&] {
    Tensor sum(0.f);
    for (const Element& element : numbers()) sum = sum + Tensor(element);
    return sum;
  });
  EXPECT_ERROR(Code::FailedPrecondition, "iterate outside", loop());
}

TEST(Iterator, StaysEagerWhileAGraphIsBuilt) {
  Graph graph;
  const auto building = graph.as_default();
  Iterator it = data::range(3).map([](Tensor x) { return x * x + int64_t{1}; }).iterator();
  it.next();
  it.next();
  EXPECT_EQ(it.next().to<int64_t>(), 5);
  EXPECT_EQ(graph.size(), 0u);
}

// An iterator as state of the session's device.
Tensor named_iterator(const data::Dataset& dataset) {
  static const internal::OpDef& op = internal::find_op("IteratorHandle");
  return internal::add_handle(op, "it", "train", {{"dataset", Tensor(dataset.serialize())}}, {})
      .handle;
}

TEST(SessionIterator, IsSharedByName) {
  Graph graph;
  const auto building = graph.as_default();
  const internal::ElementLayout layout =
      internal::source_of(internal::Access::handle(numbers().iterator())).layout();
  const Tensor x = internal::iterator_next(named_iterator(numbers()), layout, {})[0];
  const Tensor y = internal::iterator_next(named_iterator(numbers()), layout, {})[0];
  Session session;
  EXPECT_EQ(session.run(x).to<float>(), 1.f);
  EXPECT_EQ(session.run(y).to<float>(), 2.f);
  EXPECT_EQ(session.run(x).to<float>(), 3.f);
  EXPECT_ERROR(Code::OutOfRange, "iterator 'train' has no more", session.run(y));
  const Tensor z = internal::iterator_next(named_iterator(numbers().take(1)), layout, {})[0];
  EXPECT_ERROR(Code::InvalidArgument, "'train' already exists over another dataset",
               session.run(z));
  Session other;
  EXPECT_EQ(other.run(z).to<float>(), 1.f);
}

TEST(SessionIterator, RefusesElementsThatTheNodeWasNotMadeFor) {
  Graph graph;
  const auto building = graph.as_default();
  const internal::ElementLayout layout =
      internal::source_of(internal::Access::handle(data::range(3).iterator())).layout();
  const Tensor x = internal::iterator_next(named_iterator(numbers()), layout, {})[0];
  Session session;
  EXPECT_ERROR(Code::InvalidArgument,
               "'train' gives Tensor of (float32 ()), but the op was made for Tensor of (int64 ())",
               session.run(x));
}

}  // namespace
}  // namespace cohort
