#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "cohort/function.h"
#include "cohort/ops.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

using Rows = std::vector<std::vector<int64_t>>;
using Numbers = std::vector<int64_t>;

TEST(Element, IsATensorATupleOrAMap) {
  const Element one(Tensor({1, 2}));
  EXPECT_TRUE(one.is_tensor());
  const Element pair = Element::tuple(std::vector<Tensor>{Tensor(1), Tensor(2)});
  EXPECT_EQ(pair.size(), 2u);
  const Element nested = Element::map({{"y", pair}, {"x", one}});
  EXPECT_EQ(nested.names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(nested["y"][1].to<int>(), 2);
  EXPECT_EQ(nested.tensors().size(), 3u);
}

TEST(Element, ErrorsNameWhatThereIs) {
  const Element map = Element::map({{"x", Tensor(1)}});
  EXPECT_ERROR(Code::NotFound, "'z' in {'x': Tensor}", map["z"]);
  EXPECT_ERROR(Code::InvalidArgument, "the element is {'x': Tensor}", map.tensor());
  EXPECT_ERROR(Code::OutOfRange, "no part 3", (Element::tuple(std::vector<Tensor>{Tensor(1)})[3]));
  EXPECT_ERROR(Code::InvalidArgument, "two parts of the name 'a'",
               (Element::map({{"a", Tensor(1)}, {"a", Tensor(2)}})));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", Element(Tensor()));
}

TEST(Element, PairsTakePartInStructuredBindings) {
  const auto dataset = from_tensor_slices(Tensor({1, 2}), Tensor({3.f, 4.f}));
  int sum = 0;
  for (auto [x, y] : dataset) sum += x.to<int>() * static_cast<int>(y.to<float>());
  EXPECT_EQ(sum, 11);
  for (auto [x, y] : dataset.as<int, double>()) sum += x + static_cast<int>(y);
  EXPECT_EQ(sum, 21);
  const auto element = range(1).begin();
  EXPECT_ERROR(Code::InvalidArgument, "Dataset::as", (*element).get<0>());
}

TEST(Element, UnpacksAnyNumberOfTensors) {
  const auto triples = zip({range(1, 3), range(10, 12), range(100, 102)});
  int64_t sum = 0;
  for (const Element& element : triples) {
    auto [a, b, c] = element.unpack<3>();
    sum += (a + b + c).to<int64_t>();
  }
  EXPECT_EQ(sum, 111 + 114);
  for (auto [a, b, c] : triples.as<Tensor, int64_t, double>()) sum -= a.to<int64_t>() + b;
  EXPECT_EQ(sum, 201);
  const Element first = *triples.begin();
  EXPECT_ERROR(Code::InvalidArgument, "4 tensors were asked for, but the element is (Tensor,",
               first.unpack<4>());
  EXPECT_ERROR(Code::InvalidArgument, "the element is one tensor", Element(Tensor(1)).unpack<1>());
}

TEST(Range, CountsUpAndDown) {
  EXPECT_EQ(numbers(range(4)), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(numbers(range(5, 0, -2)), (Numbers{5, 3, 1}));
  EXPECT_EQ(numbers(range(3, 3)), Numbers{});
  EXPECT_EQ(range(0, 10, 3).cardinality(), 4);
  EXPECT_EQ(range(INT64_MIN, INT64_MAX, INT64_MAX).cardinality(), 3);
  EXPECT_ERROR(Code::InvalidArgument, "step", range(0, 1, 0));
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

TEST(Map, UnpacksByArity) {
  const auto pairs = from_tensor_slices(Tensor({1, 2}), Tensor({10, 20}));
  const auto sums = pairs.map([](int64_t a, int64_t b) { return a + b; });
  EXPECT_EQ(numbers(sums), (Numbers{11, 22}));
  const auto swapped = pairs.map([](Tensor a, Tensor b) { return std::pair(b, a); });
  EXPECT_EQ((*swapped.begin())[0].to<int>(), 10);
  const auto generic = pairs.map([](auto a, auto) { return a; });
  EXPECT_EQ(numbers(generic), (Numbers{1, 2}));
  const auto whole = pairs.map([](Element e) {
    return std::map<std::string, Tensor>{{"b", e[1]}};
  });
  EXPECT_EQ((*whole.begin())["b"].to<int>(), 10);
  const auto nested =
      pairs.enumerate().map([](int64_t i, int64_t a, int64_t b) { return i + a + b; });
  EXPECT_EQ(numbers(nested), (Numbers{11, 23}));
}

TEST(Map, TakesStructuresAsArguments) {
  const auto pairs = from_tensor_slices(Tensor({1, 2}), Tensor({10, 20}));
  const auto sums = pairs.map([](std::tuple<int64_t, Tensor> both) {
    return std::get<0>(both) + std::get<1>(both).to<int64_t>();
  });
  EXPECT_EQ(numbers(sums), (Numbers{11, 22}));
  const auto nested = pairs.enumerate().map(
      [](int64_t i, const std::pair<int64_t, int64_t>& both) { return i * both.second; });
  EXPECT_EQ(numbers(nested), (Numbers{0, 20}));
  const auto named = pairs.map([](Tensor a, Tensor b) {
    return std::map<std::string, Tensor>{{"a", a}, {"b", b}};
  });
  const auto by_name = named.map(
      [](const std::map<std::string, int64_t>& all) { return all.at("a") - all.at("b"); });
  EXPECT_EQ(numbers(by_name), (Numbers{-9, -18}));
  EXPECT_ERROR(Code::InvalidArgument, "map by name",
               numbers(pairs.map([](const std::map<std::string, int64_t>& all) {
                 return static_cast<int64_t>(all.size());
               })));
}

TEST(Map, TakesTracedFunctions) {
  const auto pairs = from_tensor_slices(Tensor({1.f, 2.f}), Tensor({10.f, 20.f}));
  const auto sum = function([](Tensor a, Tensor b) { return a + b; });
  std::vector<float> sums;
  for (const Tensor one : pairs.map(sum)) sums.push_back(one.to<float>());
  EXPECT_EQ(sums, (std::vector<float>{11, 22}));
  EXPECT_EQ(sum.num_traces(), 1u);
  const auto both = function([](auto a, auto b) { return std::tuple(b, a * 2.f); });
  const auto [b, doubled] = *pairs.map(both, {.parallel = 2}).begin();
  EXPECT_EQ(b.to<float>(), 10);
  EXPECT_EQ(doubled.to<float>(), 2);
}

TEST(Map, TakesRowsWithoutTensors) {
  const auto images = from_tensor_slices(Tensor({{1, 2}, {3, 4}, {5, 6}}));
  const auto sums = images.map([](std::span<const int32_t> row) {
    return std::tuple<int64_t, std::array<float, 2>>(row[0] + row[1], {row[0] * 1.f, row[1] * 2.f});
  });
  ASSERT_TRUE(sums.element_spec().has_value());
  EXPECT_EQ(sums.element_spec()->to_string(), "(int64 (), float32 (2,))");
  const Element batch = *sums.batch(2).begin();
  EXPECT_EQ(batch[0].tensor().to_vector<int64_t>(), (Numbers{3, 7}));
  EXPECT_EQ(batch[1].tensor().to_vector<float>(), (std::vector<float>{1, 4, 3, 8}));
}

TEST(Map, ErrorsCarryStageAndElementAndLaterElementsAreReachable) {
  for (const int parallel : {1, 3}) {
    const auto dataset = range(5).map(
        [](int64_t x) {
          if (x == 2) throw Error(Code::DataLoss, "two is bad");
          return x;
        },
        {.parallel = parallel, .name = "decode"});
    Iterator it = dataset.iterate();
    EXPECT_EQ(it.next().to<int>(), 0);
    EXPECT_EQ(it.next().to<int>(), 1);
    EXPECT_ERROR(Code::DataLoss, "[decode] element 2: two is bad", it.next());
    EXPECT_EQ(it.next().to<int>(), 3);
    EXPECT_EQ(it.next().to<int>(), 4);
    EXPECT_ERROR(Code::OutOfRange, "no more elements", it.next());
    EXPECT_FALSE(it.next_optional().has_value());
  }
}

// Each stage that calls a user's function: the third element fails, what comes behind it arrives.
TEST(Stages, ErrorsOfFunctionsNameStageAndElement) {
  const auto bad = [](int64_t x) {
    if (x == 2) throw Error(Code::DataLoss, "two is bad");
    return x;
  };
  struct Case {
    std::string stage;
    Dataset dataset;
    size_t rest;  // elements behind the error
  };
  const std::vector<Case> cases = {
      {"Map", range(5).map(bad), 2},
      {"Map", range(5).map(bad, {.parallel = 2}), 2},
      {"Map", range(5).map(bad).prefetch(2), 2},
      {"Filter", range(5).filter([bad](int64_t x) { return bad(x) >= 0; }), 2},
      {"TakeWhile", range(5).take_while([bad](int64_t x) { return bad(x) >= 0; }), 2},
      {"FlatMap", range(5).flat_map([bad](int64_t x) { return range(bad(x), x + 1); }), 2},
      {"Interleave",
       range(5).interleave([bad](int64_t x) { return range(bad(x), x + 1); }, {.cycle = 1}), 2},
      {"Scan",
       range(5).scan(Element(int64_t{0}),
                     [bad](int64_t sum, int64_t x) { return std::pair(sum, bad(x)); }),
       2},
      {"BucketByLength", range(5).bucket_by_length(bad, {9}, {1, 1}), 2},
      {"Generator", generator([bad] {
         return [bad, i = int64_t{0}]() mutable -> std::optional<Element> {
           if (i == 5) return std::nullopt;
           return Element(bad(i++));
         };
       }),
       2},
  };
  for (const Case& one : cases) {
    Iterator it = one.dataset.iterate();
    it.next();
    it.next();
    const std::string expected = "[" + one.stage + "] element 2: two is bad";
    EXPECT_ERROR(Code::DataLoss, expected, it.next());
    EXPECT_EQ(rest_of(it).size(), one.rest) << one.stage;
  }
}

TEST(Map, AnElementThatFailsCostsItselfOnly) {
  const auto dataset = range(7)
                           .map([](int64_t x) {
                             if (x % 3 == 1) throw std::runtime_error("bad");
                             return x;
                           })
                           .batch(2);
  std::vector<std::string> all = rest_of(dataset.iterate());
  EXPECT_EQ(all.size(), 5u);  // 0 2 | 3 5 | 6 and two errors
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const auto& text) { return text.find("[Map] element") == 0; }),
            2);
}

TEST(Map, TellsWhenArgumentsDoNotFit) {
  EXPECT_ERROR(Code::InvalidArgument, "takes 2 arguments, but the element is one tensor",
               numbers(range(2).map([](Tensor a, Tensor) { return a; })));
  EXPECT_ERROR(Code::InvalidArgument, "threads",
               range(2).map([](Tensor a) { return a; }, {.parallel = 0}));
}

TEST(Filter, KeepsWhatThePredicateAccepts) {
  EXPECT_EQ(numbers(range(6).filter([](int64_t x) { return x % 2 == 0; })), (Numbers{0, 2, 4}));
  EXPECT_EQ(numbers(range(6).take_while([](int64_t x) { return x < 3; })), (Numbers{0, 1, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "must return one bool",
               numbers(range(6).filter([](int64_t x) { return x; })));
}

TEST(Batch, StacksAndKeepsTheRemainder) {
  EXPECT_EQ(rows(range(5).batch(2)), (Rows{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(rows(range(5).batch(2, {.drop_remainder = true})), (Rows{{0, 1}, {2, 3}}));
  EXPECT_EQ(rows(range(5).batch(2, {.parallel = 2})), (Rows{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(range(5).batch(2).cardinality(), 3);
  EXPECT_EQ(range(5).batch(2, {.drop_remainder = true}).cardinality(), 2);
  EXPECT_EQ(range(4).batch(2).element_spec()->to_string(), "int64 (None,)");
  EXPECT_ERROR(Code::InvalidArgument, "at least 1, got 0", range(5).batch(0));
}

TEST(Batch, NamesBothShapesThatDoNotBatch) {
  const auto ragged = range(3).map([](int64_t n) { return std::vector<float>(n + 1); });
  EXPECT_ERROR(Code::InvalidArgument, "(1,) and, in place 1, (2,)", rows(ragged.batch(2)));
  const auto mixed = from_tensors(Tensor(1)).concatenate(from_tensors(Tensor(1.f)));
  EXPECT_ERROR(Code::InvalidArgument, "int32 and, in place 1, float32", rows(mixed.batch(2)));
  const auto odd = from_tensors(Tensor(1)).concatenate(
      from_tensors(Element::tuple(std::vector<Tensor>{Tensor(1)})));
  EXPECT_ERROR(Code::InvalidArgument, "differ in structure", rows(odd.batch(2)));
}

TEST(PaddedBatch, PadsToTheLargest) {
  const auto ragged = range(3).map([](int64_t n) { return std::vector<int64_t>(n, 7); });
  EXPECT_EQ(rows(ragged.padded_batch(3)), (Rows{{0, 0, 7, 0, 7, 7}}));
  EXPECT_EQ(rows(ragged.padded_batch(2, {.shapes = {{3}}, .padding = {Tensor(int64_t{-1})}})),
            (Rows{{-1, -1, -1, 7, -1, -1}, {7, 7, -1}}));
  EXPECT_ERROR(Code::InvalidArgument, "larger than (1,)",
               rows(ragged.padded_batch(3, {.shapes = {{1}}})));
  EXPECT_ERROR(Code::InvalidArgument, "cannot be padded with a float32 value",
               rows(ragged.padded_batch(3, {.padding = {Tensor(1.f)}})));
}

TEST(Unbatch, ReversesBatch) {
  EXPECT_EQ(numbers(range(5).batch(2).unbatch()), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows(range(8).batch(4).unbatch().batch(3)), (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_ERROR(Code::InvalidArgument, "call batch() before", numbers(range(2).unbatch()));
}

TEST(Rebatch, CutsTheStreamByACyclicList) {
  EXPECT_EQ(rows(range(14).batch(7).rebatch({3, 2, 2})),
            (Rows{{0, 1, 2}, {3, 4}, {5, 6}, {7, 8, 9}, {10, 11}, {12, 13}}));
  EXPECT_EQ(rows(range(9).batch(6).rebatch({3, 3})), (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}));
  EXPECT_EQ(rows(range(6).batch(3).rebatch({1, 1, 1, 0})),
            (Rows{{0}, {1}, {2}, {}, {3}, {4}, {5}, {}}));
  EXPECT_EQ(rows(range(5).batch(3).repeat(2).rebatch({2, 1})),
            (Rows{{0, 1}, {2}, {3, 4}, {0}, {1, 2}, {3}, {4}}));
  EXPECT_EQ(rows(range(3).batch(3).rebatch({0, 1, 1})), (Rows{{}, {0}, {1}, {}, {2}}));
  EXPECT_EQ(rows(range(5).batch(5).rebatch({2}, {.drop_remainder = true})), (Rows{{0, 1}, {2, 3}}));
  EXPECT_ERROR(Code::InvalidArgument, "all sizes are 0", range(2).batch(2).rebatch({0}));
  EXPECT_ERROR(Code::InvalidArgument, "got -1", range(2).batch(2).rebatch({-1}));
  EXPECT_ERROR(Code::InvalidArgument, "empty", range(2).batch(2).rebatch({}));
}

TEST(SplitBatches, CutsEachBatchByItself) {
  EXPECT_EQ(rows(range(14).batch(7).split_batches(3)),
            (Rows{{0, 1, 2}, {3, 4, 5}, {6}, {7, 8, 9}, {10, 11, 12}, {13}}));
  EXPECT_EQ(rows(range(9).batch(6).split_batches(2)), (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8}}));
  EXPECT_EQ(rows(range(6).batch(3).split_batches(4)), (Rows{{0}, {1}, {2}, {}, {3}, {4}, {5}, {}}));
  EXPECT_EQ(rows(range(5).batch(3).repeat(2).split_batches(2)),
            (Rows{{0, 1}, {2}, {3}, {4}, {0, 1}, {2}, {3}, {4}}));
  EXPECT_ERROR(Code::InvalidArgument, "call batch() before", rows(range(2).split_batches(2)));
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

TEST(Shard, RefusesBadIndicesAndTooFewElements) {
  EXPECT_EQ(numbers(range(7).shard(3, 1)), (Numbers{1, 4}));
  EXPECT_EQ(range(7).shard(3, 0).cardinality(), 3);
  EXPECT_ERROR(Code::InvalidArgument, "[0, 3), got 3", range(7).shard(3, 3));
  EXPECT_ERROR(Code::InvalidArgument, "got -1", range(7).shard(3, -1));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1", range(7).shard(0, 0));
  EXPECT_ERROR(Code::FailedPrecondition, "kShardHint", numbers(range(7).shard(kShardHint, 0)));
  EXPECT_ERROR(Code::InvalidArgument, "only 2 elements",
               numbers(range(2).shard(3, 2, {.require_each = true})));
  EXPECT_EQ(numbers(range(5).shard(3, 1, {.require_each = true})), (Numbers{1, 4}));
  EXPECT_EQ(numbers(range(0).shard(3, 1, {.require_each = true})), Numbers{});
}

// The elements of each window of scalars.
Rows windows(const Dataset& dataset) {
  Rows all;
  for (const Dataset window : dataset) all.push_back(numbers(window));
  return all;
}

TEST(Window, OverlapsAndStrides) {
  EXPECT_EQ(windows(range(5).window(3, {.shift = 1, .drop_remainder = true})),
            (Rows{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}}));
  EXPECT_EQ(windows(range(5).window(2, {.shift = 3})), (Rows{{0, 1}, {3, 4}}));
  EXPECT_EQ(windows(range(6).window(2, {.shift = 1, .stride = 2, .drop_remainder = true})),
            (Rows{{0, 2}, {1, 3}, {2, 4}, {3, 5}}));
  EXPECT_EQ(windows(range(3).window(2, {.shift = 1})), (Rows{{0, 1}, {1, 2}, {2}}));
  EXPECT_ERROR(Code::InvalidArgument, "size", range(3).window(0));
}

TEST(Window, ElementsAreDatasetsToBatchAndMap) {
  const auto sums = range(4).window(2, {.shift = 1}).flat_map([](Dataset window) {
    return window.map([](int64_t x) { return x * 10; }).batch(2);
  });
  EXPECT_EQ(rows(sums), (Rows{{0, 10}, {10, 20}, {20, 30}, {30}}));
  const Element first = *range(4).window(3).begin();
  EXPECT_TRUE(first.is_dataset());
  EXPECT_EQ(first.size(), 3u);
  EXPECT_EQ(first.dataset().cardinality(), 3);
  EXPECT_EQ(first.dataset().element_spec()->to_string(), "int64 ()");
  EXPECT_ERROR(Code::InvalidArgument, "a dataset was asked for", Element(Tensor(1)).dataset());
}

TEST(Window, TurnsEachTensorIntoADataset) {
  const auto pairs = zip({range(4), range(10, 14)}).window(2).flat_map([](Dataset a, Dataset b) {
    return zip({a.batch(2), b.batch(2)});
  });
  const auto [a, b] = *pairs.begin();
  EXPECT_EQ(a.to_vector<int64_t>(), (Numbers{0, 1}));
  EXPECT_EQ(b.to_vector<int64_t>(), (Numbers{10, 11}));
}

TEST(Window, HoldsElementsOfAnyShape) {
  const auto words = range(1, 4).map([](int64_t n) { return std::vector<int64_t>(n, n); });
  const auto padded =
      words.window(3).flat_map([](Dataset window) { return window.padded_batch(3); });
  EXPECT_EQ(rows(padded), (Rows{{1, 0, 0, 2, 2, 0, 3, 3, 3}}));
  EXPECT_ERROR(Code::InvalidArgument, "cannot be stacked", rows(range(4).window(2).batch(2)));
  EXPECT_ERROR(Code::InvalidArgument, "windows of windows",
               range(4).window(2).window(2).iterate().next());
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

TEST(Bucket, GroupsByLength) {
  const auto words = range(1, 7).map([](int64_t n) { return std::vector<int64_t>(n, n); });
  const auto batches = words.bucket_by_length(
      [](std::span<const int64_t> word) { return static_cast<int64_t>(word.size()); }, {3, 5},
      {2, 2, 2});
  EXPECT_EQ(rows(batches),
            (Rows{{1, 0, 2, 2}, {3, 3, 3, 0, 4, 4, 4, 4}, {5, 5, 5, 5, 5, 0, 6, 6, 6, 6, 6, 6}}));
  EXPECT_ERROR(Code::InvalidArgument, "batch sizes",
               words.bucket_by_length([](Tensor) { return int64_t{1}; }, {3}, {2}));
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

TEST(Options, TheLastOneWins) {
  const auto dataset = range(3)
                           .options({.auto_shard_policy = AutoShardPolicy::File, .threads = 2})
                           .batch(2)
                           .options({.auto_shard_policy = AutoShardPolicy::Off});
  EXPECT_EQ(dataset.options().auto_shard_policy, AutoShardPolicy::Off);
  EXPECT_EQ(dataset.options().threads, 2);
  EXPECT_ERROR(Code::InvalidArgument, "threads", range(1).options({.threads = 0}));
}

TEST(Prefetch, HandsOnEverythingInOrder) {
  for (const int depth : {kAutotune, 0, 1, 4}) {
    EXPECT_EQ(numbers(range(50).prefetch(depth)), numbers(range(50)));
  }
  EXPECT_ERROR(Code::InvalidArgument, "depth", range(1).prefetch(-2));
}

// Scalars that know how many of them exist.
class Counted {
 public:
  Tensor make() {
    const int64_t now = ++now_;
    int64_t before = most_;
    while (before < now && !most_.compare_exchange_weak(before, now)) {
    }
    return Tensor::from_memory(&kValue, kFloat32, Shape{}, [this] { --now_; });
  }
  int64_t most() const { return most_; }

 private:
  static constexpr float kValue = 1;
  std::atomic<int64_t> now_ = 0;
  std::atomic<int64_t> most_ = 0;
};

TEST(Stages, HoldNoMoreElementsThanTheySay) {
  // Each holds its own, one is on its way in, and the consumer has one, or two while it moves on.
  constexpr int64_t kElsewhere = 3;
  struct Case {
    std::string stage;
    std::function<Dataset(const Dataset&)> add;
    int64_t most;
  };
  const std::vector<Case> cases = {
      {"shuffle", [](const Dataset& in) { return in.shuffle(10); }, 10},
      {"prefetch", [](const Dataset& in) { return in.prefetch(5); }, 5},
      {"automatic prefetch", [](const Dataset& in) { return in.prefetch(); }, 256},
      {"both", [](const Dataset& in) { return in.shuffle(10).prefetch(5); }, 10 + 5 + 1},
      {"parallel map",
       [](const Dataset& in) { return in.map([](Tensor x) { return x; }, {.parallel = 3}); },
       2 * 3 + 3},
      {"batch", [](const Dataset& in) { return in.batch(7); }, 7},
      {"window", [](const Dataset& in) { return in.window(4, {.shift = 1}); }, 4 + 4},
  };
  for (const Case& one : cases) {
    Counted counted;
    const Dataset source = range(400).map([&](Tensor) { return counted.make(); });
    for (const Element& element : one.add(source)) EXPECT_GE(element.size(), 1u);
    EXPECT_LE(counted.most(), one.most + kElsewhere) << one.stage;
  }
}

TEST(Iterator, RangeForIsNotForTracedFunctions) {
  const auto sum = function([](Tensor x) {
    for (const Element& element : range(2)) x = x + element.tensor();
    return x;
  });
  EXPECT_ERROR(Code::FailedPrecondition, "range-for over a dataset cannot be part of a traced",
               sum(Tensor(int64_t{1})));
}

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Prefetch, StartsAThreadOnceElementsAreSlowToMake) {
  const auto consumer = std::this_thread::get_id();
  std::atomic<bool> ahead = false;
  const auto slow = range(10'000).map([&](int64_t x) {
    if (std::this_thread::get_id() != consumer) ahead = true;
    work_for(std::chrono::microseconds(200));
    return x;
  });
  int64_t expected = 0;
  for (const Element& element : slow.prefetch()) {
    EXPECT_EQ(element.to<int64_t>(), expected++);
    if (ahead) break;
    work_for(std::chrono::microseconds(200));
  }
  EXPECT_TRUE(ahead);
}

TEST(Prefetch, NeedsNoThreadForElementsThatAreThere) {
  const auto consumer = std::this_thread::get_id();
  std::atomic<int> elsewhere = 0;
  const auto quick = range(2000).map([&](int64_t x) {
    if (std::this_thread::get_id() != consumer) ++elsewhere;
    return x;
  });
  EXPECT_EQ(numbers(quick.prefetch()).size(), 2000u);
  EXPECT_LT(elsewhere, 2000);  // a busy machine may make some look slow
}

TEST(Iterator, StopsItsThreadsWhenItIsDestroyed) {
  // Endless stages under threads: destruction must not wait for an element.
  const auto endless = range(10).repeat().filter([](int64_t) { return false; });
  { Iterator it = endless.prefetch(2).prefetch(2).iterate(); }
  Iterator busy =
      range(10).repeat().map([](Tensor x) { return x; }, {.parallel = 3}).prefetch().iterate();
  busy.next();
}

TEST(Iterator, UnorderedMapGivesAllElements) {
  Numbers all =
      numbers(range(100).map([](Tensor x) { return x; }, {.parallel = 4, .deterministic = false}));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, numbers(range(100)));
}

TEST(Dataset, PrintsItsStages) {
  EXPECT_EQ(range(9).shuffle(3).batch(2).to_string(), "Range(0, 9, 1) -> Shuffle(3) -> Batch(2)");
}

}  // namespace
}  // namespace cohort::data
