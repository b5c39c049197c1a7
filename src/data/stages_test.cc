#include <algorithm>
#include <atomic>
#include <sstream>

#include "cohort/function.h"
#include "cohort/ops.h"
#include "data/iterator.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

TEST(Range, CountsUpAndDown) {
  EXPECT_EQ(numbers(range(4)), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(numbers(range(5, 0, -2)), (Numbers{5, 3, 1}));
  EXPECT_EQ(numbers(range(3, 3)), Numbers{});
  EXPECT_EQ(range(0, 10, 3).cardinality(), 4);
  EXPECT_EQ(range(INT64_MIN, INT64_MAX, INT64_MAX).cardinality(), 3);
  EXPECT_ERROR(Code::InvalidArgument, "step", range(0, 1, 0));
}

TEST(Cardinalities, ThatDoNotFitAreTheLargestNumber) {
  const Dataset many = range(8).batch(4, {.drop_remainder = true}).repeat(INT64_MAX);
  EXPECT_EQ(many.cardinality(), INT64_MAX);
  EXPECT_EQ(many.unbatch().cardinality(), INT64_MAX);
  EXPECT_EQ(many.split_batches(2).cardinality(), INT64_MAX);
}

TEST(Slices, NeedEquallyManyRows) {
  EXPECT_ERROR(Code::InvalidArgument, "(2,) and (3,)",
               from_tensor_slices(Tensor({1, 2}), Tensor({1, 2, 3})));
  EXPECT_ERROR(Code::InvalidArgument, "scalar", from_tensor_slices(Tensor(1)));
  EXPECT_ERROR(Code::InvalidArgument, "no tensors", from_tensor_slices(Element()));
}

TEST(Slices, BatchesOfNeighboursAreViews) {
  const Tensor all = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  const auto it = from_tensor_slices(Element(all)).batch(2).begin();
  const Tensor batch = *it;
  EXPECT_EQ(batch.data<float>().data(), all.data<float>().data());
}

TEST(Shuffle, KeepsAllElementsAndRepeatsBySeed) {
  const auto dataset = range(20).shuffle(7, {.seed = 3, .reshuffle_each_iteration = false});
  const Numbers first = numbers(dataset);
  EXPECT_EQ(first, numbers(dataset));
  EXPECT_NE(first, numbers(range(20)));
  const auto again = range(20).shuffle(7, {.seed = 3});
  const Numbers epoch = numbers(again);
  EXPECT_NE(epoch, numbers(again));  // another order in the second iteration
  EXPECT_EQ(epoch, numbers(range(20).shuffle(7, {.seed = 3})));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1", range(2).shuffle(0));
}

TEST(Repeat, StartsAnewAndReshuffles) {
  EXPECT_EQ(numbers(range(2).repeat(3)), (Numbers{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(numbers(range(3).repeat().take(7)), (Numbers{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(numbers(range(0).repeat()), Numbers{});
  EXPECT_EQ(range(3).repeat().cardinality(), kInfinite);
  const Numbers two = numbers(range(9).shuffle(9, {.seed = 1}).repeat(2));
  EXPECT_NE(Numbers(two.begin(), two.begin() + 9), Numbers(two.begin() + 9, two.end()));
}

TEST(Repeat, TakesMinusOneAsTensorFlowDoes) {
  EXPECT_EQ(range(3).repeat(-1).cardinality(), kInfinite);
  EXPECT_EQ(numbers(range(2).repeat(-1).take(3)), (Numbers{0, 1, 0}));
  EXPECT_ERROR(Code::InvalidArgument,
               "[Repeat] the count must be 0 or more, got -2; leave it empty to repeat for ever",
               range(3).repeat(-2));
}

TEST(Cardinality, IsANumberInfiniteOrUnknown) {
  const auto text = [](Cardinality cardinality) {
    std::ostringstream out;
    out << cardinality;
    return out.str();
  };
  EXPECT_EQ(text(range(3).cardinality()), "3");
  EXPECT_EQ(text(range(3).repeat().cardinality()), "infinite");
  EXPECT_EQ(text(range(3).filter([](int64_t) { return true; }).cardinality()), "unknown");
  EXPECT_EQ(range(3).cardinality().count(), 3);
  EXPECT_ERROR(Code::FailedPrecondition, "the cardinality is infinite, which is not a number",
               range(3).repeat().cardinality().count());
  EXPECT_ERROR(Code::InvalidArgument, "must be 0 or more, got -1; use kInfinite", Cardinality(-1));
}

TEST(Cardinality, IsOrderedUnlessItIsUnknown) {
  EXPECT_LT(Cardinality(2), 3);
  EXPECT_LT(Cardinality(3), kInfinite);
  EXPECT_NE(kInfinite, kUnknownCardinality);
  EXPECT_FALSE(kUnknownCardinality < 3);
  EXPECT_FALSE(kUnknownCardinality > 3);
  EXPECT_FALSE(kUnknownCardinality < kInfinite);
}

TEST(Autotune, IsNoNegativeNumber) {
  const auto same = [](const Tensor& x) { return x; };
  constexpr auto kRemedy = "got -1; use kAutotune to let the library choose it";
  EXPECT_ERROR(Code::InvalidArgument, kRemedy, range(3).map(same, {.parallel = -1}));
  EXPECT_ERROR(Code::InvalidArgument, kRemedy, range(3).batch(2, {.parallel = -1}));
  EXPECT_ERROR(Code::InvalidArgument, kRemedy, range(3).prefetch(-1));
  EXPECT_EQ(numbers(range(3).map(same, {.parallel = kAutotune}).prefetch(kAutotune)),
            (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers(range(3).prefetch(0)), (Numbers{0, 1, 2}));
}

TEST(Shard, RefusesBadIndicesAndTooFewElements) {
  EXPECT_EQ(numbers(range(7).shard(3, 1)), (Numbers{1, 4}));
  EXPECT_EQ(range(7).shard(3, 0).cardinality(), 3);
  EXPECT_ERROR(Code::InvalidArgument, "[0, 3), got 3", range(7).shard(3, 3));
  EXPECT_ERROR(Code::InvalidArgument, "got -1", range(7).shard(3, -1));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1", range(7).shard(0, 0));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1, got -1; use kShardHint", range(7).shard(-1, 0));
  EXPECT_ERROR(Code::FailedPrecondition, "kShardHint", numbers(range(7).shard(kShardHint, 0)));
  EXPECT_EQ(range(7).shard(kShardHint, 0).to_string(), "Range(0, 7, 1) -> Shard(kShardHint, 0)");
  EXPECT_EQ(range(7).shard(kShardHint, 0).cardinality(), kUnknownCardinality);
  EXPECT_ERROR(Code::InvalidArgument, "only 2 elements",
               numbers(range(2).shard(3, 2, {.require_each = true})));
  EXPECT_EQ(numbers(range(5).shard(3, 1, {.require_each = true})), (Numbers{1, 4}));
  EXPECT_EQ(numbers(range(0).shard(3, 1, {.require_each = true})), Numbers{});
}

TEST(FlatMap, ConcatenatesAndInterleaves) {
  const auto repeat = [](int64_t x) { return from_tensors(Tensor(x)).repeat(3); };
  EXPECT_EQ(numbers(range(1, 4).flat_map(repeat)), (Numbers{1, 1, 1, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(numbers(range(1, 5).interleave(repeat, {.cycle = 2, .block = 2})),
            (Numbers{1, 1, 2, 2, 1, 2, 3, 3, 4, 4, 3, 4}));
  EXPECT_EQ(numbers(range(1, 4).interleave(repeat, {.cycle = 3, .parallel = kAutotune})),
            (Numbers{1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_ERROR(Code::InvalidArgument, "cycle", range(3).interleave(repeat, {.cycle = 0}));
}

TEST(Combine, ZipConcatenateSample) {
  const auto zipped = zip({range(3), range(10, 20)});
  EXPECT_EQ(zipped.cardinality(), 3);
  EXPECT_EQ(numbers(zipped.map([](int64_t a, int64_t b) { return a * b; })), (Numbers{0, 11, 24}));
  EXPECT_EQ(numbers(range(2).concatenate(range(5, 7))), (Numbers{0, 1, 5, 6}));
  Numbers sampled = numbers(sample_from({range(3), range(10, 14)}, {.seed = 1}));
  std::sort(sampled.begin(), sampled.end());
  EXPECT_EQ(sampled, (Numbers{0, 1, 2, 10, 11, 12, 13}));
  EXPECT_EQ(numbers(sample_from({range(3), range(9)}, {.weights = {1, 0}})), (Numbers{0, 1, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "1 weights for 2",
               sample_from({range(1), range(1)}, {.weights = {1}}));
  EXPECT_ERROR(Code::InvalidArgument, "at least one", zip({}));
}

TEST(Scan, CarriesStateAlong) {
  const auto sums = range(1, 5).scan(Element(int64_t{0}), [](int64_t sum, int64_t x) {
    return std::pair(sum + x, (sum + x) * 10);
  });
  EXPECT_EQ(numbers(sums), (Numbers{10, 30, 60, 100}));
  EXPECT_EQ(
      range(5).reduce(Element(int64_t{0}), [](int64_t a, int64_t b) { return a + b; }).to<int>(),
      10);
}

TEST(Cache, ReadsTheInputOnce) {
  auto calls = std::make_shared<int>(0);
  const auto counted = range(4).map([calls](Tensor x) {
    ++*calls;
    return x;
  });
  const auto cached = counted.cache();
  EXPECT_EQ(numbers(cached.repeat(3)).size(), 12u);
  EXPECT_EQ(numbers(cached), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(*calls, 4);
  const TemporaryDirectory directory;
  const auto filed = counted.cache(directory.path("cache"));
  EXPECT_EQ(numbers(filed), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(numbers(filed), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(*calls, 8);
  directory.file("bad", "not a cache");
  EXPECT_ERROR(Code::DataLoss, "TFRecord", numbers(counted.cache(directory.path("bad"))));
}

TEST(Generator, StartsAnewForEachIterator) {
  const auto dataset = generator([] {
    return [i = int64_t{0}]() mutable -> std::optional<Element> {
      if (i == 3) return std::nullopt;
      return Element(i++);
    };
  });
  EXPECT_EQ(numbers(dataset), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers(dataset.repeat(2)), (Numbers{0, 1, 2, 0, 1, 2}));
}

TEST(Generator, IsNotCalledAgainAfterALookThatReachedItsEnd) {
  const auto calls = std::make_shared<int64_t>(0);
  const auto dataset = generator([calls] {
    return [calls]() -> std::optional<Element> {
      if (++*calls > 3) return std::nullopt;
      return Element(*calls);
    };
  });
  EXPECT_TRUE(internal::look_at_first(dataset.shuffle(100)).has_value());
  EXPECT_EQ(numbers(dataset), (Numbers{1, 2, 3}));
  EXPECT_EQ(*calls, 4);
}

TEST(Generator, KeepsEachOfTheWalksThatALookBegan) {
  const auto next = std::make_shared<int64_t>(0);
  const auto live = generator(
      [next] { return [next]() -> std::optional<Element> { return Element((*next)++); }; });
  const auto pairs = zip({live, live});
  EXPECT_TRUE(internal::look_at_first(pairs).has_value());
  std::vector<int64_t> seen;
  Iterator it = pairs.iterator();
  for (int i = 0; i < 2; ++i) {
    const Element pair = it.next();
    for (const size_t part : {0u, 1u}) seen.push_back(pair[part].tensor().to<int64_t>());
  }
  EXPECT_EQ(seen, (Numbers{0, 1, 2, 3}));
}

TEST(Options, TheLastOneWins) {
  const auto dataset = range(3)
                           .options({.auto_shard_policy = AutoShardPolicy::File, .threads = 2})
                           .batch(2)
                           .options({.auto_shard_policy = AutoShardPolicy::Off});
  EXPECT_EQ(dataset.options().auto_shard_policy, AutoShardPolicy::Off);
  EXPECT_EQ(dataset.options().threads, 2);
  EXPECT_ERROR(Code::InvalidArgument, "threads", range(1).options({.threads = 0}));
}

TEST(Iterator, RangeForIsNotForTracedFunctions) {
  const auto sum = function([](Tensor x) {
    for (const Element& element : range(2)) x = x + element.tensor();
    return x;
  });
  EXPECT_ERROR(Code::FailedPrecondition, "range-for over a dataset cannot be part of a traced",
               sum(Tensor(int64_t{1})));
}

TEST(Dataset, PrintsItsStages) {
  EXPECT_EQ(range(9).shuffle(3).batch(2).to_string(), "Range(0, 9, 1) -> Shuffle(3) -> Batch(2)");
}

NextFunction count_up(const std::shared_ptr<int64_t>& next) {
  return [next]() -> std::optional<Element> {
    if (*next == 4) return std::nullopt;
    return Element((*next)++);
  };
}

TEST(Iterator, DeliversTheElementThatDescribesTheOthers) {
  const auto next = std::make_shared<int64_t>(0);
  const Dataset live = generator([next] { return count_up(next); });
  Iterator it = live.iterator();
  EXPECT_EQ(it.element_spec()->to_string(), "int64 ()");
  EXPECT_EQ(it.next().to<int64_t>(), 0);
  EXPECT_EQ(it.next().to<int64_t>(), 1);
}

TEST(Iterator, KeepsTheElementThatDescribesTheOthersInItsPosition) {
  const Dataset mapped = range(3).map([](Tensor x) { return x; });
  Iterator it = mapped.iterator();
  (void)it.element_spec();
  Iterator same = mapped.iterator(it.save());
  EXPECT_EQ(same.next().to<int64_t>(), 0);
  EXPECT_EQ(same.next().to<int64_t>(), 1);
}

TEST(Generator, MayDeclareItsElements) {
  const auto next = std::make_shared<int64_t>(0);
  const auto start = [next] { return count_up(next); };
  const Dataset declared = generator(start, ElementSpec(TensorSpec{kInt64, {}}));
  EXPECT_EQ(declared.batch(2).element_spec()->to_string(), "int64 (None,)");
  EXPECT_EQ(numbers(declared), (Numbers{0, 1, 2, 3}));
  const auto spec = ElementSpec::map({{"y", {kInt64, {}}}, {"x", {kFloat32, {-1, 2}}}});
  EXPECT_EQ(spec.to_string(), "{'x': float32 (None, 2), 'y': int64 ()}");
  EXPECT_EQ(ElementSpec::tuple({{kInt64, {}}, {kString, Shape::unknown()}}).to_string(),
            "(int64 (), string <unknown>)");
}

TEST(Generator, MakesWhatItDeclares) {
  const auto made = [](const Element& element, const ElementSpec& spec) {
    const auto start = [element] { return [element] { return std::optional(element); }; };
    return generator(start, spec).take(1);
  };
  const Element row(Tensor({1.f, 2.f}));
  EXPECT_EQ(made(row, ElementSpec(TensorSpec{kFloat32, {-1}})).iterator().next().size(), 1u);
  const auto refused = [&](const ElementSpec& spec) {
    EXPECT_ERROR(Code::InvalidArgument, "declared", made(row, spec).iterator().next());
  };
  refused(ElementSpec(TensorSpec{kFloat32, {3}}));
  refused(ElementSpec(TensorSpec{kInt64, {2}}));
  refused(ElementSpec(TensorSpec{kFloat32, {2, 1}}));
  refused(ElementSpec::tuple({{kFloat32, {2}}}));
}

TEST(Shard, CountsElementsInOrderWhateverStagesBeforeItMayDo) {
  const auto gate = std::make_shared<std::atomic<bool>>(false);
  const auto late = [gate](int64_t x) {  // the second element is ready before the first
    if (x == 0) gate->wait(false);
    if (x == 1) {
      gate->store(true);
      gate->notify_all();
    }
    return x;
  };
  const Dataset mapped = range(4).map(late, {.parallel = 2, .deterministic = false});
  EXPECT_EQ(numbers(mapped.shard(2, 0)), (Numbers{0, 2}));
}

TEST(FlatMap, RestoresShufflesThatNobodyGaveASeed) {
  const auto make = [] {
    return range(5).flat_map([](int64_t x) { return range(10 * x, 10 * x + 8).shuffle(8); });
  };
  Iterator it = make().iterator();
  it.next();
  const std::string position = it.save();
  EXPECT_EQ(rest_of(make().iterator(position)), rest_of(it));
}

// The end of other data, read by a function, does not look like the end of this.
TEST(EndOfData, InsideOfAFunctionIsAnError) {
  Iterator few = range(1).iterator();
  const Dataset zipped = range(3).map([few](Tensor) mutable { return few.next().tensor(); });
  Iterator it = zipped.iterator();
  it.next();
  EXPECT_ERROR(Code::InvalidArgument, "[Map] element 1: [Iterator] the dataset has no more",
               it.next());
}

}  // namespace
}  // namespace cohort::data
