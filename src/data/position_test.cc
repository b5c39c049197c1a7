// Saved positions, shards and shuffles, on pipelines made up at random.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>

#include "support/random_pipelines.h"

namespace cohort::data {
namespace {

void step(Iterator& it, int count) {
  for (int i = 0; i < count; ++i) (void)capture_status([&] { it.next_optional(); });
}

RC_GTEST_PROP(Position, RestoredAtAnyPointGivesTheSameRest, ()) {
  const Dataset dataset = random_pipeline();
  Iterator it = dataset.iterator();
  for (int part = 0; part < 3; ++part) {
    const auto steps = *rc::gen::inRange(0, 20);
    step(it, steps);
    const std::string position = it.save();
    RC_LOG() << dataset.to_string() << " after " << steps << " more\n";
    Iterator early = dataset.iterator(position);
    Iterator other = dataset.iterator();  // what others do meanwhile changes nothing
    step(other, steps);
    Iterator more = dataset.iterator(position);
    const auto expected = rest_of(early, 300);
    RC_ASSERT(rest_of(more, 300) == expected);
    // Saving changes nothing, and a position can be used again.
    if (part == 2) RC_ASSERT(rest_of(it, 300) == expected);
    RC_ASSERT(rest_of(dataset.iterator(position), 300) == expected);
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
  Iterator it = dataset.iterator();
  std::vector<std::string> all = rest_of(it, *rc::gen::inRange<int64_t>(0, 60));
  for (const std::string& late : rest_of(dataset.iterator(it.save()))) all.push_back(late);
  std::vector<std::string> expected = rest_of(range(count).iterator());
  std::ranges::sort(all);
  std::ranges::sort(expected);
  RC_ASSERT(all == expected);
}

RC_GTEST_PROP(Position, DamagedBytesAreAnErrorAndNothingWorse, ()) {
  const Dataset dataset = random_pipeline();
  Iterator it = dataset.iterator();
  for (int i = 0; i < 5; ++i) (void)capture_status([&] { it.next_optional(); });
  std::string position = it.save();
  const auto at = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(position.size())));
  position[at] = static_cast<char>(position[at] ^ (1 << *rc::gen::inRange(0, 8)));
  const Status status = capture_status([&] { rest_of(dataset.iterator(position), 100); });
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
  const Cardinality known = dataset.cardinality();
  RC_PRE(known.is_number());
  const std::vector<std::string> all = rest_of(dataset.iterator());
  // An element that fails makes the batches around it others.
  RC_PRE(std::none_of(all.begin(), all.end(), [](const auto& text) { return text[0] == '['; }));
  RC_ASSERT(static_cast<int64_t>(all.size()) == known.count());
}

RC_GTEST_PROP(ElementSpec, HoldsForEveryElement, ()) {
  const Dataset dataset = random_pipeline();
  const std::optional<ElementSpec> spec = dataset.element_spec();
  RC_PRE(spec.has_value());
  Iterator it = dataset.iterator();
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
  const std::string position = range(5).batch(2).iterator().save();
  EXPECT_ERROR(Code::InvalidArgument, "does not fit this dataset",
               range(5).shuffle(2).iterator(position));
  EXPECT_ERROR(Code::InvalidArgument, "ends too early", range(5).iterator("cohort position 1\n"));
  EXPECT_ERROR(Code::InvalidArgument, "do not come from", range(5).iterator("hello"));
}

TEST(Position, OfACacheThatAnotherIteratorFilledInAnotherOrder) {
  const Dataset dataset = range(12).shuffle(12, {.seed = 4}).cache();
  Iterator it = dataset.iterator();
  for (int i = 0; i < 5; ++i) it.next();
  const std::string position = it.save();
  rest_of(dataset.iterator());  // completes the cache
  Iterator restored = dataset.iterator(position);
  EXPECT_EQ(rest_of(restored), rest_of(it));
}

TEST(Position, OfACacheThatWasEmptyStaysInItsOwnOrder) {
  for (const bool file : {false, true}) {
    const Dataset shuffled = range(12).shuffle(12, {.seed = 4});
    const Dataset cached = file ? shuffled.cache(new_cache_file()) : shuffled.cache();
    const Dataset dataset = sample_from(
        {cached.repeat(2), cached.map([](int64_t x) { return x + 100; }).repeat(2)}, {.seed = 5});
    const std::string position = dataset.iterator().save();
    const auto expected = rest_of(dataset.iterator(position));  // completes the cache
    EXPECT_EQ(rest_of(dataset.iterator(position)), expected);
    const Dataset again = sample_from({cached.skip(0)}, {.seed = 5});
    EXPECT_EQ(rest_of(again.iterator()), rest_of(cached.iterator()));  // those who come later share
  }
}

TEST(Position, OfACacheAtTheEndOfAPassHandsItOnAgain) {
  const Dataset dataset =
      range(6).shuffle(6, {.seed = 4}).cache().shuffle(2, {.seed = 1}).repeat(3);
  Iterator it = dataset.iterator();
  for (int i = 0; i < 5; ++i) it.next();  // the second shuffle has seen the end
  const std::string position = it.save();
  rest_of(dataset.iterator());  // completes the cache, in another order
  EXPECT_EQ(rest_of(dataset.iterator(position)), rest_of(it));
}

TEST(Shuffle, WalksThatReadAheadDoNotTakeEachOthersEpochs) {
  const Dataset shuffled = range(40).shuffle(40, {.seed = 4}).repeat(3);
  const auto slowly = [](int64_t x) { return x; };
  const Dataset ahead = shuffled.map(slowly, {.parallel = 3}).prefetch(2);
  const std::string position = zip({ahead, ahead}).iterator().save();
  const Dataset dataset = zip({ahead, ahead});
  const auto expected = rest_of(dataset.iterator(position));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rest_of(dataset.iterator(position)), expected);
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
    Iterator it = dataset.iterator();
    for (int i = 0; i < 3; ++i) it.next();
    EXPECT_ERROR(Code::Unknown, "bad element", it.next());
    const std::string position = it.save();
    const auto rest = rest_of(it);
    EXPECT_EQ(rest.size(), 6u);
    EXPECT_EQ(rest_of(dataset.iterator(position)), rest);
    EXPECT_EQ(rest_of(dataset.iterator()).size(), 10u);  // failures are tried again, not kept
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

// After a restart as before it, the order of the third iterator follows that of the second.
TEST(Position, IsFollowedByTheOrderOfTheNextIterator) {
  const auto shuffled = [] { return range(12).shuffle(12, {.seed = 4}); };
  const auto expanded = [] {
    return range(2).flat_map([](int64_t) { return range(12).shuffle(12, {.seed = 4}); });
  };
  const std::vector<std::function<Dataset()>> all = {shuffled, expanded};
  for (const auto& make : all) {
    const Dataset before = make();
    rest_of(before.iterator());
    Iterator second = before.iterator();
    second.next();
    const std::string position = second.save();
    const Dataset after = make();
    rest_of(after.iterator(position));
    EXPECT_EQ(numbers(after), numbers(before));
  }
}

TEST(Position, GoesOnInTheSameEpochAfterRepeat) {
  const Dataset dataset = range(6).shuffle(6, {.seed = 2}).repeat(4);
  Iterator it = dataset.iterator();
  for (int i = 0; i < 9; ++i) it.next();
  const std::string position = it.save();
  const Dataset rebuilt = range(6).shuffle(6, {.seed = 99}).repeat(4);  // as after a restart
  EXPECT_EQ(rest_of(rebuilt.iterator(position)), rest_of(it));
}

}  // namespace
}  // namespace cohort::data
