// Walking over distributed datasets: the end of the data, errors, positions.

#include <set>
#include <thread>

#include "cohort/function.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "support/distributed_steps.h"

namespace cohort {
namespace {

using data::Element;
using data::range;

DistributedDataset from(Strategy& strategy, const data::Dataset& dataset) {
  return strategy.distribute_datasets_from_function([&](const InputContext&) { return dataset; });
}

TEST(PartialStep, ReplicasWithoutDataGetEmptyElements) {
  const auto strategy = mirrored(3);
  auto it = from(*strategy, range(7).batch(2)).iterator();
  EXPECT_EQ(rows_of(it.next()), (Rows{{0, 1}, {2, 3}, {4, 5}}));
  const DistributedElement last = it.next();
  EXPECT_EQ(rows_of(last), (Rows{{6}, {}, {}}));
  EXPECT_EQ(last.sample_counts(), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_TRUE(last.has_data(0));
  EXPECT_FALSE(last.has_data(1));
  EXPECT_ERROR(Code::InvalidArgument, "3", last.has_data(3));
  EXPECT_EQ(last.global_sample_count(), 1);
  EXPECT_ERROR(Code::OutOfRange, "no more elements", it.next());
  EXPECT_ERROR(Code::OutOfRange, "no more elements", it.next());
  EXPECT_EQ(it.next_optional(), std::nullopt);
}

TEST(PartialStep, EmptyElementsKeepTheStructure) {
  const auto strategy = mirrored(2);
  const auto dataset =
      range(3)
          .map([](int64_t x) {
            return std::map<std::string, Tensor>{{"image", ones({2, 3}, kFloat32)},
                                                 {"name", Tensor(std::to_string(x))}};
          })
          .batch(1);
  const auto last = [&](const data::Dataset& of) {
    auto it = from(*strategy, of).iterator();
    it.next();
    return data::ElementSpec(it.next()[1]).to_string();
  };
  EXPECT_EQ(last(dataset), "{'image': float32 (0, 2, 3), 'name': string (0,)}");
}

TEST(PartialStep, IsHandedOutByCentralStorageToo) {
  CentralStorageStrategy strategy(
      {.compute_devices = {"CPU:0", "CPU:1"}, .parameter_device = "CPU:0"});
  EXPECT_EQ(steps_of(from(strategy, range(3).batch(1))), (Steps{{{0}, {1}}, {{2}, {}}}));
}

// What walking over the dataset twice logs.
std::string log_of(const data::Dataset& dataset, int replicas) {
  const auto strategy = mirrored(replicas);
  testing::internal::CaptureStderr();
  for (int epoch = 0; epoch < 2; ++epoch) steps_of(strategy->distribute_dataset(dataset));
  return testing::internal::GetCapturedStderr();
}

TEST(PartialStep, BeforeTheLastIsLoggedOnce) {
  const std::string of_one = log_of(range(1003).batch(1), 2);
  const size_t first = of_one.find("gave the replicas of this process 1, 0 rows");
  EXPECT_NE(first, std::string::npos) << of_one;
  EXPECT_NE(of_one.find("a multiple of the 2 replicas"), std::string::npos) << of_one;
  EXPECT_EQ(of_one.find("rows", of_one.find('\n')), std::string::npos) << of_one;
  // More rows than replicas, and still none for the last one.
  EXPECT_NE(log_of(range(1005).batch(5), 4).find("2, 2, 1, 0 rows"), std::string::npos);
  EXPECT_EQ(log_of(range(1009).batch(4), 2), "");  // the last batch has 1 row
  EXPECT_EQ(log_of(range(1001).batch(1), 1), "");
}

// Static sizes say that no step is uneven; where one is, it is no step.
TEST(PartialStep, IsDroppedWhereSizesAreStatic) {
  const auto strategy = mirrored(2);
  const auto dist = from(*strategy, range(6).batch(2, {.drop_remainder = true}));
  EXPECT_EQ(steps_of(dist), (Steps{{{0, 1}, {2, 3}}}));
  auto it = dist.iterator();
  it.next();
  EXPECT_ERROR(Code::OutOfRange, "no more elements", it.next());
  EXPECT_EQ(it.next_optional(), std::nullopt);
}

TEST(PartialStep, NextOptionalHandsItOutInAnyCase) {
  const auto strategy = mirrored(2);
  const auto dist = from(*strategy, range(6).batch(2, {.drop_remainder = true}));
  EXPECT_EQ(rest_of(dist.iterator()), (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {}}}));
  EXPECT_EQ(rest_of(from(*strategy, range(0).batch(2)).iterator()), Steps{});
}

TEST(PartialStep, DoesNotExistInEndlessData) {
  const auto strategy = mirrored(2);
  auto it = from(*strategy, range(3).batch(2).repeat()).iterator();
  EXPECT_EQ(rows_of(it.next()), (Rows{{0, 1}, {2}}));
  EXPECT_EQ(rows_of(*it.next_optional()), (Rows{{0, 1}, {2}}));
}

TEST(PartialStep, ElementsThatAreNoBatchesCountAsOneSample) {
  const auto strategy = mirrored(2);
  const auto scalars = range(3).map([](Tensor x) { return x; });
  auto it = from(*strategy, scalars).iterator();
  EXPECT_EQ(it.next().sample_counts(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(it.next().sample_counts(), (std::vector<int64_t>{1, 0}));
}

TEST(PartialStep, ARebatchedStepMayHaveEmptyElementsBeforeTheEnd) {
  const auto strategy = mirrored(4);
  auto it = strategy->distribute_dataset(range(6).batch(3)).iterator();
  const auto element = it.next();
  EXPECT_EQ(element.sample_counts(), (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(element.global_sample_count(), 3);
}

TEST(DistributedIterator, KeepsEverythingItNeeds) {
  const auto strategy = mirrored(2);
  DistributedIterator it = strategy->distribute_dataset(range(4).batch(2)).iterator();
  DistributedIterator same = it;
  EXPECT_EQ(rows_of(it.next()), (Rows{{0}, {1}}));
  EXPECT_EQ(rows_of(same.next()), (Rows{{2}, {3}}));
  auto begin = strategy->distribute_dataset(range(4).batch(2)).begin();
  EXPECT_EQ(rows_of(*++begin), (Rows{{2}, {3}}));
}

TEST(DistributedDataset, EachIteratorStartsAnew) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_dataset(range(4).batch(2));
  const Steps all = {{{0}, {1}}, {{2}, {3}}};
  EXPECT_EQ(steps_of(dist), all);
  EXPECT_EQ(steps_of(dist), all);
}

TEST(DistributedIterator, WrapsElementsUnlessThereIsOneReplicaInAll) {
  const auto two = mirrored(2);
  const Tensor same({1.f, 2.f});
  EXPECT_FALSE(from(*two, data::from_tensors(same).repeat(2)).iterator().next().collapsed());
  const auto one = mirrored(1);
  EXPECT_TRUE(from(*one, data::from_tensors(same)).iterator().next().collapsed());
}

TEST(DistributedIterator, NextIsNotForReplicas) {
  const auto strategy = mirrored(2);
  auto it = strategy->distribute_dataset(range(8).batch(2)).iterator();
  EXPECT_ERROR(Code::InvalidArgument, "outside of run()", strategy->run([&] { it.next(); }));
  EXPECT_ERROR(Code::InvalidArgument, "outside of run()",
               strategy->run([&] { it.next_optional(); }));
  const auto scope = strategy->scope();
  EXPECT_EQ(rows_of(it.next()), (Rows{{0}, {1}}));
}

TEST(DistributedIterator, NextIsNotForOtherStrategies) {
  const auto strategy = mirrored(2);
  auto it = strategy->distribute_dataset(range(4).batch(2)).iterator();
  OneDeviceStrategy other("CPU:0");
  EXPECT_ERROR(Code::FailedPrecondition, "DistributedIterator::next",
               other.run([&] { it.next(); }));
  const auto scope = other.scope();
  EXPECT_ERROR(Code::FailedPrecondition, "DistributedIterator::next", it.next());
}

TEST(DistributedIterator, NextIsNotForGraphs) {
  const auto strategy = mirrored(2);
  auto it = strategy->distribute_dataset(range(4).batch(2)).iterator();
  Graph graph;
  const auto building = graph.as_default();
  EXPECT_ERROR(Code::FailedPrecondition, "while a graph is being built", it.next());
}

TEST(TracedSteps, EachCallTakesTheNextStep) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_dataset(range(8).batch(4));
  const auto step = function([&](DistributedIterator it) {
    return strategy->reduce(ReduceOp::Sum, strategy->run([](Tensor x) { return x * 2; }, it.next()),
                            0);
  });
  DistributedIterator it = dist.iterator();
  EXPECT_EQ(step(it).to<int64_t>(), 12);
  EXPECT_EQ(rows_of(it.next()), (Rows{{4, 5}, {6, 7}}));
  EXPECT_ERROR(Code::OutOfRange, "IteratorNext", step(it));
  EXPECT_EQ(step(dist.iterator()).to<int64_t>(), 12);
  EXPECT_EQ(step.num_traces(), 1u);
}

TEST(TracedSteps, ReplicasWithoutDataGetEmptyElements) {
  const auto strategy = mirrored(2);
  auto it = from(*strategy, range(3).batch(1)).iterator();
  const auto step = function([&] {
    const DistributedElement element = it.next();
    EXPECT_ERROR(Code::FailedPrecondition, "traced", element.sample_counts());
    EXPECT_ERROR(Code::FailedPrecondition, "traced", it.next_optional());
    return std::vector<Tensor>{element[0], element[1]};
  });
  EXPECT_EQ(step()[1].to_vector<int64_t>(), (std::vector<int64_t>{1}));
  EXPECT_EQ(step()[1].shape(), (Shape{0}));
}

TEST(TracedSteps, ALoopOverThemIsAnEpoch) {
  const auto strategy = mirrored(2);
  const auto scope = strategy->scope();
  Variable steps(0.f, {.aggregation = VariableAggregation::Mean});
  const auto dist = strategy->distribute_dataset(range(10).batch(4));
  const auto epoch = function([&](DistributedIterator it) {
    return it.reduce({Tensor(int64_t{0})},
                     [&](std::span<const Tensor> state, const DistributedElement& element) {
                       const auto sums = strategy->run(
                           [&](Tensor x) {
                             steps.assign_add(Tensor(1.f));
                             return sum(x);
                           },
                           element);
                       return std::vector<Tensor>{state[0] + strategy->reduce(ReduceOp::Sum, sums)};
                     })[0];
  });
  EXPECT_EQ(epoch(dist.iterator()).to<int64_t>(), 45);
  EXPECT_EQ(epoch(dist.iterator()).to<int64_t>(), 45);
  EXPECT_EQ(Tensor(steps).to<float>(), 6.f);
  EXPECT_EQ(epoch.num_traces(), 1u);
}

TEST(TracedSteps, ADatasetIsWalkedOverAnewInEachCall) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_dataset(range(8).shuffle(8, {.seed = 7}).batch(4));
  const auto epoch = function([&] {
    return dist.iterator().reduce({Tensor(int64_t{0})}, [&](std::span<const Tensor> state,
                                                            const DistributedElement& element) {
      const auto firsts = strategy->run([](Tensor x) { return x[0]; }, element);
      const Tensor first = strategy->local_results(firsts)[0];
      return std::vector<Tensor>{state[0] * int64_t{10} + first};
    })[0];
  });
  std::set<int64_t> orders;
  for (int call = 0; call < 6; ++call) orders.insert(epoch().to<int64_t>());
  EXPECT_GT(orders.size(), 1u) << "each call must begin the next pass, which is shuffled anew";
}

TEST(TracedSteps, OptionalOnesTellWhereTheDataEnds) {
  const auto strategy = mirrored(2);
  const auto next_sum = [&](DistributedIterator it) {
    const auto next = it.next_as_optional();
    return cond(
        next.has_value(),
        [&] {
          return strategy->reduce(ReduceOp::Sum,
                                  strategy->run([](Tensor x) { return sum(x); }, next.value()));
        },
        [] { return Tensor(int64_t{-1}); });
  };
  const auto traced = function(next_sum);
  DistributedIterator plain = strategy->distribute_dataset(range(8).batch(4)).iterator();
  DistributedIterator it = strategy->distribute_dataset(range(8).batch(4)).iterator();
  for (const int64_t expected : {6, 22, -1}) {
    EXPECT_EQ(next_sum(plain).to<int64_t>(), expected);
    EXPECT_EQ(traced(it).to<int64_t>(), expected);
  }
}

TEST(TracedSteps, AreNotForReplicas) {
  const auto strategy = mirrored(2);
  auto it = strategy->distribute_dataset(range(8).batch(4)).iterator();
  const auto step = function([&] { return Tensor(it.next()[0]); });
  EXPECT_ERROR(Code::InvalidArgument, "outside of run()", strategy->run([&] { return step(); }));
}

TEST(TracedSteps, CanBeArguments) {
  const auto strategy = mirrored(2);
  const auto step = function([&](DistributedElement x) {
    return strategy->reduce(ReduceOp::Sum, strategy->run([](Tensor y) { return y * 2; }, x), 0);
  });
  auto it = strategy->distribute_dataset(range(8).batch(4)).iterator();
  EXPECT_EQ(step(it.next()).to<int64_t>(), 12);
  EXPECT_EQ(step(it.next()).to<int64_t>(), 44);
}

data::Dataset failing_at(int64_t bad) {
  return range(6).map([bad](Tensor x) {
    if (x.to<int64_t>() == bad) throw std::runtime_error("bad element");
    return x;
  });
}

TEST(DistributedIterator, GoesOnBehindAnElementThatFailed) {
  const auto strategy = mirrored(2);
  auto it = from(*strategy, failing_at(3)).iterator();
  EXPECT_EQ(rows_of(it.next()), (Rows{{0}, {1}}));
  EXPECT_ERROR(Code::Unknown, "bad element", it.next());
  EXPECT_EQ(rows_of(it.next()), (Rows{{2}, {4}}));
  EXPECT_EQ(it.next().sample_counts(), (std::vector<int64_t>{1, 0}));
}

TEST(DistributedIterator, EachElementGoesToOneThread) {
  const auto strategy = mirrored(2);
  auto it = strategy->distribute_dataset(range(400).batch(4)).iterator();
  std::vector<int64_t> counts(3);
  {
    std::vector<std::jthread> threads;
    for (int64_t& count : counts) {
      threads.emplace_back([&count, it]() mutable {
        while (const auto element = it.next_optional()) count += element->global_sample_count();
      });
    }
  }
  EXPECT_EQ(counts[0] + counts[1] + counts[2], 400);
}

// A source that goes on from pass to pass: each number is there once.
data::Dataset live_numbers(const std::shared_ptr<int64_t>& next) {
  return data::generator(
      [next] { return [next]() -> std::optional<Element> { return Element((*next)++); }; });
}

data::Dataset stateful_map(const std::shared_ptr<int64_t>& next) {
  return range(100).map([next](Tensor) { return Tensor((*next)++); });
}

template <typename Make>
void expect_nothing_lost(const Make& numbers) {
  const auto strategy = mirrored(2);
  const Steps first_two = {{{0}, {1}}, {{2}, {3}}};
  const auto step = function([&](DistributedIterator it) {
    const DistributedElement element = it.next();
    return std::vector<Tensor>{element[0], element[1]};
  });
  const auto in_trace = [&](const DistributedIterator& it) {
    Rows rows;
    for (const Tensor& part : step(it)) rows.push_back(part.to_vector<int64_t>());
    return rows;
  };
  const auto fresh = [&] {
    return strategy->distribute_dataset(numbers(std::make_shared<int64_t>(0)).batch(2),
                                        {.fetch_to_device = false});
  };
  {
    DistributedIterator it = fresh().iterator();
    EXPECT_EQ((Steps{in_trace(it), in_trace(it)}), first_two) << "traced";
  }
  {
    const DistributedDataset dist = fresh();
    EXPECT_EQ(dist.element_spec().to_string(), "int64 (None,)");
    DistributedIterator it = dist.iterator();
    EXPECT_EQ(it.element_spec().to_string(), "int64 (None,)");
    EXPECT_EQ((Steps{rows_of(it.next()), in_trace(it)}), first_two) << "element_spec()";
  }
  {
    DistributedIterator it = fresh().iterator();
    DistributedIterator other = it;
    (void)it.element_spec();
    EXPECT_EQ((Steps{rows_of(other.next()), rows_of(it.next())}), first_two) << "copies";
  }
}

TEST(LookingAtElements, LosesNoneOfALiveSource) { expect_nothing_lost(live_numbers); }
TEST(LookingAtElements, LosesNoneOfAStatefulMap) { expect_nothing_lost(stateful_map); }

TEST(LookingAtElements, AfterAStepLosesNone) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_dataset(
      live_numbers(std::make_shared<int64_t>(0)).batch(2), {.fetch_to_device = false});
  DistributedIterator it = dist.iterator();
  EXPECT_EQ(rows_of(it.next()), (Rows{{0}, {1}}));
  EXPECT_EQ(dist.element_spec().to_string(), "int64 (None,)");
  EXPECT_EQ(rows_of(it.next()), (Rows{{2}, {3}}));
}

// The chief calls the function of flat_map to see whether it reads files.
TEST(LookingAtElements, ForFilesLosesNoneOfALiveSource) {
  const auto strategy = mirrored(2);
  const auto numbers = live_numbers(std::make_shared<int64_t>(0)).flat_map([](int64_t x) {
    return range(x, x + 1);
  });
  auto it = strategy->distribute_dataset(numbers.batch(2), {.fetch_to_device = false}).iterator();
  EXPECT_EQ(rows_of(it.next()), (Rows{{0}, {1}}));
}

TEST(LookingAtElements, MakesNoneWhereTheGeneratorDeclaresThem) {
  const auto strategy = mirrored(2);
  const auto made = std::make_shared<int64_t>(0);
  const auto start = [made] {
    return [made]() -> std::optional<Element> { return Element(Tensor({(*made)++, int64_t{7}})); };
  };
  const auto numbers = data::generator(start, data::ElementSpec(TensorSpec{kInt64, {-1}}));
  DistributedIterator it = from(*strategy, numbers).iterator();
  EXPECT_EQ(it.element_spec().to_string(), "int64 (None,)");
  EXPECT_EQ(*made, 0);
  const auto step = function([&](DistributedIterator of) { return Tensor(of.next()[1]); });
  EXPECT_EQ(step(it).to_vector<int64_t>(), (std::vector<int64_t>{1, 7}));
}

TEST(LookingAtElements, IsPartOfASavedPosition) {
  const auto strategy = mirrored(2);
  const auto dist = from(*strategy, range(6).map([](Tensor x) { return x; }));
  auto it = dist.iterator();
  (void)it.element_spec();
  const std::string position = it.save();
  EXPECT_EQ(rest_of(dist.iterator(position)), rest_of(it));
  auto later = dist.iterator(position);
  (void)later.element_spec();
  EXPECT_EQ(rest_of(later), (Steps{{{0}, {1}}, {{2}, {3}}, {{4}, {5}}}));
}

TEST(Position, IsWhereTheNextIteratorGoesOn) {
  const auto strategy = mirrored(3);
  const auto dist = strategy->distribute_dataset(range(40).batch(4).shuffle(5, {.seed = 3}));
  for (int done = 0; done <= 10; ++done) {
    auto it = dist.iterator();
    for (int i = 0; i < done; ++i) it.next();
    auto same = dist.iterator(it.save());
    EXPECT_EQ(rest_of(same), rest_of(it)) << done;
    EXPECT_EQ(rest_of(dist.iterator(same.save())), Steps{});
  }
}

TEST(Position, KeepsWhatWasDrawnBeforeAnError) {
  const auto strategy = mirrored(2);
  const auto dist = from(*strategy, failing_at(3));
  auto it = dist.iterator();
  it.next();
  EXPECT_ERROR(Code::Unknown, "bad element", it.next());
  EXPECT_EQ(rest_of(dist.iterator(it.save())), (Steps{{{2}, {4}}, {{5}, {0}}}));
}

TEST(Position, OfSomethingElseIsRefused) {
  const auto strategy = mirrored(2);
  const auto dist = strategy->distribute_dataset(range(8).batch(4));
  std::string position = dist.iterator().save();
  EXPECT_ERROR(Code::InvalidArgument,
               "worker 0 of 1 with 2 replicas, and this is worker 0 of 1 with 3 replicas",
               mirrored(3)->distribute_dataset(range(8).batch(4)).iterator(position));
  EXPECT_ERROR(Code::InvalidArgument, "does not fit",
               strategy->distribute_dataset(range(8).batch(4).take(1)).iterator(position));
  EXPECT_ERROR(Code::InvalidArgument, "stage", dist.iterator(range(8).iterator().save()));
  position.back() ^= 1;
  EXPECT_ERROR(Code::InvalidArgument, "damaged", dist.iterator(position));
  EXPECT_ERROR(Code::InvalidArgument, "do not come from", dist.iterator("hello"));
}

}  // namespace
}  // namespace cohort
