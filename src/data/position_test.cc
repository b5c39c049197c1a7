// Saved positions, shards and shuffles, on pipelines made up at random.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/compress.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

// Files of the numbers 0, 1, 2, ..., made once.
class NumberFiles {
 public:
  static constexpr int64_t kCount = 23;

  NumberFiles() {
    std::string lines;
    std::vector<double> values;
    TFRecordWriter records(path("tfrecord"));
    for (int64_t i = 0; i < kCount; ++i) {
      const std::string number = std::to_string(i);
      lines += number + "\n";
      values.push_back(static_cast<double>(i));
      // Short ones and some that readers take past their buffers.
      records.write(number + std::string(i % 4 == 3 ? 40'000 : 3, ' '));
    }
    records.close();
    directory_.file("text", lines);
    directory_.file("text.gz", gzip(lines));
    write_npy(path("npy"), Tensor::from(std::move(values)));
  }
  std::string path(const std::string& name) const { return directory_.path(name); }

 private:
  TemporaryDirectory directory_;
};

Dataset numbers_of_file(int kind) {
  static const NumberFiles files;
  const auto parse = [](std::string text) { return std::stod(text); };
  switch (kind) {
    case 0:
      return tfrecord(files.path("tfrecord")).map(parse);
    case 1:
      return text_lines({files.path("text"), files.path("text.gz")}).map(parse);
    case 2:
      return csv(files.path("text.gz"), {{kFloat64}}, {.header = false}).map([](double x) {
        return x;
      });
    default:
      return npy(files.path("npy"));
  }
}

Dataset generated(int64_t count) {
  return generator([count] {
    return [i = int64_t{0}, count]() mutable -> std::optional<Element> {
      if (i == count) return std::nullopt;
      return Element(static_cast<double>(i++));
    };
  });
}

// A few doubles.
Dataset source(int kind, int64_t count) {
  if (kind == 0) return range(count).map([](int64_t x) { return static_cast<double>(x); });
  if (kind == 1) {
    std::vector<double> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0.0);
    return from_tensor_slices(Element(Tensor::from(std::move(values))));
  }
  return kind == 2 ? generated(count) : numbers_of_file(kind - 3);
}
constexpr int kSources = 7;

double fail_at_threes(double x) {
  if (static_cast<int64_t>(x) % 5 == 3) throw std::runtime_error("bad element");
  return x;
}

std::string new_cache_file() {
  static const TemporaryDirectory directory;
  static int count = 0;
  return directory.path("cache" + std::to_string(count++));
}

// One stage that keeps elements scalars.
Dataset add_stage(const Dataset& dataset, int kind, int64_t n) {
  const int threads = static_cast<int>(n % 3) + 1;
  switch (kind) {
    case 0:
      return dataset.map([](Tensor x) { return x; }, {.parallel = threads});
    case 1:
      return dataset.map(fail_at_threes, {.parallel = threads});
    case 2:
      return dataset.shuffle(n + 1, {.seed = 11});
    case 3:
      return dataset.repeat(n % 3);
    case 4:
      return dataset.take(n);
    case 5:
      return dataset.skip(n % 4);
    case 6:
      return dataset.shard(n % 3 + 1, n % 2 % (n % 3 + 1));
    case 7:
      return dataset.prefetch(static_cast<int>(n % 3));
    case 8:
      return dataset.filter([](double x) { return static_cast<int64_t>(x) % 3 != 0; });
    case 9:
      return dataset.batch(n % 4 + 1, {.parallel = threads}).unbatch();
    case 10:
      return dataset.batch(n % 4 + 1).rebatch({n % 3 + 1, 0, 2}).unbatch();
    case 11:
      return dataset.batch(n % 4 + 1).split_batches(n % 3 + 1).unbatch();
    case 12:
      return dataset.interleave([](Tensor x) { return from_tensors(x).repeat(2); },
                                {.cycle = n % 3 + 1, .block = n % 2 + 1, .parallel = threads});
    case 13:
      return dataset.scan(Element(0.0),
                          [](double sum, double x) { return std::pair(sum + x, sum * 0.5 + x); });
    case 14:
      return dataset.cache();
    case 15:
      return zip({dataset, dataset.skip(1)}).map([](double a, double b) { return a + b; });
    case 16:
      return dataset.concatenate(dataset.take(n % 5));
    case 17:
      return sample_from({dataset, dataset.map([](double x) { return x + 100; })}, {.seed = 5});
    case 18:
      return dataset.window(n % 3 + 1, {.shift = n % 4 + 1}).flat_map([](Dataset window) {
        return window;
      });
    case 19:
      return dataset.padded_batch(n % 3 + 1).unbatch();
    case 20:
      return dataset.enumerate().map(
          [](int64_t i, double x) { return x * 100 + static_cast<double>(i); });
    case 21:
      return dataset.take_while([](double x) { return x < 25; });
    case 22:
      return dataset.cache(new_cache_file());
    case 23:  // shuffles that are made on the way
      return dataset.flat_map([n](double x) {
        return range(n % 3 + 2).shuffle(3, {.seed = 5}).map([x](int64_t i) {
          return x + static_cast<double>(i) / 16;
        });
      });
    case 24: {  // one that all elements share
      const Dataset few = from_tensor_slices(Tensor({0.25, 0.5, 0.75})).shuffle(3, {.seed = 9});
      return dataset.interleave([few](Tensor) { return few.repeat(2); },
                                {.cycle = n % 3 + 1, .parallel = threads});
    }
    case 25: {  // one that two walks share
      const Dataset both = dataset.shuffle(n + 1, {.seed = 3}).repeat(2);
      return zip({both, both.skip(n % 4)}).map([](double a, double b) { return a * 64 + b; });
    }
    case 26:
      return dataset.prefetch();
    case 27:
      return dataset.shuffle(4, {.seed = 8, .reshuffle_each_iteration = false}).repeat(2);
    default:
      return dataset
          .bucket_by_length([](double x) { return static_cast<int64_t>(x); }, {4, 9}, {2, 3, 1})
          .unbatch();
  }
}
constexpr int kStages = 29;

Dataset random_pipeline() {
  Dataset dataset = source(*rc::gen::inRange(0, kSources), *rc::gen::inRange<int64_t>(0, 30));
  const auto count = *rc::gen::inRange(1, 5);
  for (int i = 0; i < count; ++i) {
    const int kind = *rc::gen::inRange(0, kStages);
    dataset = add_stage(dataset, kind, *rc::gen::inRange<int64_t>(0, 12));
  }
  return dataset;
}

void step(Iterator& it, int count) {
  for (int i = 0; i < count; ++i) (void)capture_status([&] { it.next_optional(); });
}

RC_GTEST_PROP(Position, RestoredAtAnyPointGivesTheSameRest, ()) {
  const Dataset dataset = random_pipeline();
  Iterator it = dataset.iterate();
  for (int part = 0; part < 3; ++part) {
    const auto steps = *rc::gen::inRange(0, 20);
    step(it, steps);
    const std::string position = it.save();
    RC_LOG() << dataset.to_string() << " after " << steps << " more\n";
    Iterator early = dataset.iterate(position);
    Iterator other = dataset.iterate();  // what others do meanwhile changes nothing
    step(other, steps);
    Iterator more = dataset.iterate(position);
    const auto expected = rest_of(early, 300);
    RC_ASSERT(rest_of(more, 300) == expected);
    // Saving changes nothing, and a position can be used again.
    if (part == 2) RC_ASSERT(rest_of(it, 300) == expected);
    RC_ASSERT(rest_of(dataset.iterate(position), 300) == expected);
  }
}

RC_GTEST_PROP(Position, OfUnorderedStagesKeepsEveryElement, ()) {
  const auto count = *rc::gen::inRange<int64_t>(0, 60);
  const Dataset dataset =
      range(count)
          .map([](Tensor x) { return x; }, {.parallel = 3, .deterministic = false})
          .batch(2, {.parallel = 2})
          .unbatch()
          .options({.deterministic = false})
          .prefetch(2);
  Iterator it = dataset.iterate();
  std::vector<std::string> all = rest_of(it, *rc::gen::inRange<int64_t>(0, 60));
  for (const std::string& late : rest_of(dataset.iterate(it.save()))) all.push_back(late);
  std::vector<std::string> expected = rest_of(range(count).iterate());
  std::ranges::sort(all);
  std::ranges::sort(expected);
  RC_ASSERT(all == expected);
}

RC_GTEST_PROP(Position, DamagedBytesAreAnErrorAndNothingWorse, ()) {
  const Dataset dataset = random_pipeline();
  Iterator it = dataset.iterate();
  for (int i = 0; i < 5; ++i) (void)capture_status([&] { it.next_optional(); });
  std::string position = it.save();
  const auto at = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(position.size())));
  position[at] = static_cast<char>(position[at] ^ (1 << *rc::gen::inRange(0, 8)));
  const Status status = capture_status([&] { rest_of(dataset.iterate(position), 100); });
  RC_ASSERT(status.code == Code::InvalidArgument);
}

RC_GTEST_PROP(Shard, ShardsAreDisjointAndComplete, ()) {
  const auto count = *rc::gen::inRange<int64_t>(0, 50);
  const auto shards = *rc::gen::inRange<int64_t>(1, 9);
  const Dataset dataset =
      *rc::gen::arbitrary<bool>() ? range(count) : range(count).map([](Tensor x) { return x; });
  std::vector<int64_t> all;
  for (int64_t i = 0; i < shards; ++i) {
    const Dataset shard = dataset.shard(shards, i);
    const auto part = numbers(shard);
    RC_ASSERT(static_cast<int64_t>(part.size()) == shard.cardinality());
    for (const int64_t x : part) RC_ASSERT(x % shards == i);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  RC_ASSERT(all == numbers(range(count)));
}

RC_GTEST_PROP(Shuffle, IsAPermutationWithinItsBuffer, (uint64_t seed)) {
  const auto count = *rc::gen::inRange<int64_t>(0, 60);
  const auto buffer = *rc::gen::inRange<int64_t>(1, 70);
  const Dataset dataset =
      *rc::gen::arbitrary<bool>() ? range(count) : range(count).map([](Tensor x) { return x; });
  std::vector<int64_t> all = numbers(dataset.shuffle(buffer, {.seed = seed}));
  for (size_t i = 0; i < all.size(); ++i) {
    RC_ASSERT(all[i] < static_cast<int64_t>(i) + buffer);  // none comes before it was read
  }
  std::sort(all.begin(), all.end());
  RC_ASSERT(all == numbers(range(count)));
}

RC_GTEST_PROP(Cardinality, IsTheNumberOfElementsWhereItIsKnown, ()) {
  const Dataset dataset = random_pipeline();
  const int64_t known = dataset.cardinality();
  RC_PRE(known >= 0);
  const std::vector<std::string> all = rest_of(dataset.iterate());
  // An element that fails makes the batches around it others.
  RC_PRE(std::none_of(all.begin(), all.end(), [](const auto& text) { return text[0] == '['; }));
  RC_ASSERT(static_cast<int64_t>(all.size()) == known);
}

RC_GTEST_PROP(ElementSpec, HoldsForEveryElement, ()) {
  const Dataset dataset = random_pipeline();
  const std::optional<ElementSpec> spec = dataset.element_spec();
  RC_PRE(spec.has_value());
  Iterator it = dataset.iterate();
  for (;;) {
    std::optional<Element> element;
    if (!capture_status([&] { element = it.next_optional(); }).ok()) continue;
    if (!element) break;
    const auto found = ElementSpec(*element).tensors();
    const auto promised = spec->tensors();
    RC_ASSERT(found.size() == promised.size());
    for (size_t i = 0; i < found.size(); ++i) {
      RC_ASSERT(found[i].dtype == promised[i].dtype);
      RC_ASSERT(promised[i].shape.is_compatible_with(found[i].shape));
    }
  }
}

TEST(Position, OfAnotherDatasetIsRefused) {
  const std::string position = range(5).batch(2).iterate().save();
  EXPECT_ERROR(Code::InvalidArgument, "does not fit this dataset",
               range(5).shuffle(2).iterate(position));
  EXPECT_ERROR(Code::InvalidArgument, "ends too early", range(5).iterate("cohort position 1\n"));
  EXPECT_ERROR(Code::InvalidArgument, "not the bytes", range(5).iterate("hello"));
}

TEST(Position, OfACacheThatAnotherIteratorFilledInAnotherOrder) {
  const Dataset dataset = range(12).shuffle(12, {.seed = 4}).cache();
  Iterator it = dataset.iterate();
  for (int i = 0; i < 5; ++i) it.next();
  const std::string position = it.save();
  rest_of(dataset.iterate());  // completes the cache
  Iterator restored = dataset.iterate(position);
  EXPECT_EQ(rest_of(restored), rest_of(it));
}

TEST(Position, OfACacheThatWasEmptyStaysInItsOwnOrder) {
  for (const bool file : {false, true}) {
    const Dataset shuffled = range(12).shuffle(12, {.seed = 4});
    const Dataset cached = file ? shuffled.cache(new_cache_file()) : shuffled.cache();
    const Dataset dataset = sample_from(
        {cached.repeat(2), cached.map([](int64_t x) { return x + 100; }).repeat(2)}, {.seed = 5});
    const std::string position = dataset.iterate().save();
    const auto expected = rest_of(dataset.iterate(position));  // completes the cache
    EXPECT_EQ(rest_of(dataset.iterate(position)), expected);
    const Dataset again = sample_from({cached.skip(0)}, {.seed = 5});
    EXPECT_EQ(rest_of(again.iterate()), rest_of(cached.iterate()));  // those who come later share
  }
}

TEST(Position, OfACacheAtTheEndOfAPassHandsItOnAgain) {
  const Dataset dataset =
      range(6).shuffle(6, {.seed = 4}).cache().shuffle(2, {.seed = 1}).repeat(3);
  Iterator it = dataset.iterate();
  for (int i = 0; i < 5; ++i) it.next();  // the second shuffle has seen the end
  const std::string position = it.save();
  rest_of(dataset.iterate());  // completes the cache, in another order
  EXPECT_EQ(rest_of(dataset.iterate(position)), rest_of(it));
}

TEST(Shuffle, WalksThatReadAheadDoNotTakeEachOthersEpochs) {
  const Dataset shuffled = range(40).shuffle(40, {.seed = 4}).repeat(3);
  const auto slowly = [](int64_t x) { return x; };
  const Dataset ahead = shuffled.map(slowly, {.parallel = 3}).prefetch(2);
  const std::string position = zip({ahead, ahead}).iterate().save();
  const Dataset dataset = zip({ahead, ahead});
  const auto expected = rest_of(dataset.iterate(position));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rest_of(dataset.iterate(position)), expected);
}

TEST(Shuffle, WalksOverOneStageHaveOrdersOfTheirOwn) {
  const Dataset shuffled = range(40).shuffle(40, {.seed = 4}).repeat(2);
  std::vector<std::vector<int64_t>> orders(4);
  int64_t at = 0;
  for (const Element& pair : zip({shuffled, shuffled})) {
    const auto epoch = static_cast<size_t>(at++ / 40);
    orders[epoch].push_back(pair[0].tensor().to<int64_t>());
    orders[2 + epoch].push_back(pair[1].tensor().to<int64_t>());
  }
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(orders[i], orders[j]) << i << " " << j;
  }
  // Two stages with one seed go together, as images and their labels want it.
  for (const Element& pair :
       zip({range(9).shuffle(9, {.seed = 1}), range(9).shuffle(9, {.seed = 1})})) {
    EXPECT_EQ(pair[0].tensor().to<int64_t>(), pair[1].tensor().to<int64_t>());
  }
}

TEST(Position, OfAPassWithFailuresCountsThem) {
  for (const bool file : {false, true}) {
    const Dataset failing =
        range(10).map([](int64_t x) { return fail_at_threes(static_cast<double>(x)); });
    const Dataset dataset = file ? failing.cache(new_cache_file()) : failing.cache();
    Iterator it = dataset.iterate();
    for (int i = 0; i < 3; ++i) it.next();
    EXPECT_ERROR(Code::Unknown, "bad element", it.next());
    const std::string position = it.save();
    const auto rest = rest_of(it);
    EXPECT_EQ(rest.size(), 6u);
    EXPECT_EQ(rest_of(dataset.iterate(position)), rest);
    EXPECT_EQ(rest_of(dataset.iterate()).size(), 10u);  // failures are tried again, not kept
  }
}

TEST(FlatMap, ShufflesInsideDependOnTheirSeedOnly) {
  const auto build = [] {
    return range(6).flat_map([](int64_t x) {
      return range(8).shuffle(8, {.seed = 1}).map([x](int64_t i) { return 10 * x + i; });
    });
  };
  const auto first = numbers(build());
  const std::vector<std::string> garbage(1000, std::string(100, 'x'));  // other addresses
  EXPECT_EQ(numbers(build()), first);
  const std::vector<int64_t> a(first.begin(), first.begin() + 8);
  std::vector<int64_t> b(first.begin() + 8, first.begin() + 16);
  for (int64_t& x : b) x -= 10;
  EXPECT_NE(a, b);  // not all elements get one order
  const Dataset again = build();
  const auto epoch = numbers(again);
  EXPECT_NE(numbers(again), epoch);
}

TEST(Position, GoesOnInTheSameEpochAfterRepeat) {
  const Dataset dataset = range(6).shuffle(6, {.seed = 2}).repeat(4);
  Iterator it = dataset.iterate();
  for (int i = 0; i < 9; ++i) it.next();
  const std::string position = it.save();
  const Dataset rebuilt = range(6).shuffle(6, {.seed = 99}).repeat(4);  // as after a restart
  EXPECT_EQ(rest_of(rebuilt.iterate(position)), rest_of(it));
}

}  // namespace
}  // namespace cohort::data
