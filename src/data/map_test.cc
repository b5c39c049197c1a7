// Stages that call functions of the user.

#include <algorithm>

#include "cohort/function.h"
#include "cohort/ops.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

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
    Iterator it = dataset.iterator();
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
    Iterator it = one.dataset.iterator();
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
  std::vector<std::string> all = rest_of(dataset.iterator());
  EXPECT_EQ(all.size(), 5u);  // 0 2 | 3 5 | 6 and two errors
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const auto& text) { return text.find("[Map] element") == 0; }),
            2);
}

TEST(Map, TellsWhenArgumentsDoNotFit) {
  EXPECT_ERROR(Code::InvalidArgument, "takes 2 arguments, but the element is one tensor",
               numbers(range(2).map([](Tensor a, Tensor) { return a; })));
  const Dataset pairs = zip({range(2), range(2)});
  EXPECT_ERROR(Code::InvalidArgument,
               "takes 1 argument, but the element has 2: (Tensor, Tensor); take 2 arguments",
               numbers(pairs.map([](Tensor a) { return a; })));
  EXPECT_ERROR(Code::InvalidArgument, "argument 1 must be one tensor, but that part of the element",
               numbers(zip({range(2), pairs}).map([](Tensor a, Tensor) { return a; })));
  const Dataset by_name = pairs.map([](const Element& pair) {
    return Element::map({{"pair", pair}});
  });
  EXPECT_ERROR(Code::InvalidArgument, "takes one tensor, but the element is {'pair': (Tensor, ",
               numbers(by_name.map([](Tensor a) { return a; })));
  EXPECT_ERROR(Code::InvalidArgument, "must be one tensor, but that part of the element is (Tensor",
               numbers(by_name.map(
                   [](const std::map<std::string, Tensor>& named) { return named.at("pair"); })));
  EXPECT_ERROR(Code::InvalidArgument, "threads",
               range(2).map([](Tensor a) { return a; }, {.parallel = 0}));
}

TEST(Filter, KeepsWhatThePredicateAccepts) {
  EXPECT_EQ(numbers(range(6).filter([](int64_t x) { return x % 2 == 0; })), (Numbers{0, 2, 4}));
  EXPECT_EQ(numbers(range(6).take_while([](int64_t x) { return x < 3; })), (Numbers{0, 1, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "must return one bool",
               numbers(range(6).filter([](int64_t x) { return x; })));
}

}  // namespace
}  // namespace cohort::data
