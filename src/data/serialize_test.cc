#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support/datasets.h"

namespace cohort::data {
namespace {

int64_t doubled(int64_t x) { return 2 * x; }

struct Registered {
  Function twice = register_function("test.double", doubled);
  Function even = register_function("test.even", [](int64_t x) { return x % 4 == 0; });
  DatasetFunction again =
      register_dataset_function("test.again", [](Tensor x) { return from_tensors(x).repeat(2); });
  GeneratorFunction three = register_generator("test.three", [] {
    return [i = int64_t{0}]() mutable -> std::optional<Element> {
      return i < 3 ? std::optional(Element(i++)) : std::nullopt;
    };
  });
  Function sum =
      register_function("test.sum", [](int64_t a, int64_t b) { return std::pair(a + b, a * b); });
};

const Registered& registered() {
  static const Registered all;
  return all;
}

void expect_same_after_serializing(const Dataset& dataset) {
  const Dataset copy = Dataset::deserialize(dataset.serialize());
  EXPECT_EQ(copy.to_string(), dataset.to_string());
  EXPECT_EQ(copy.cardinality(), dataset.cardinality());
  EXPECT_EQ(rest_of(copy.iterator()), rest_of(dataset.iterator())) << dataset.to_string();
}

TEST(Serialize, EveryKindOfStageTravels) {
  const Registered& f = registered();
  expect_same_after_serializing(
      range(9).map(f.twice, {.parallel = 2, .name = "x"}).filter(f.even).batch(2));
  expect_same_after_serializing(
      range(9).shuffle(4, {.seed = 1}).repeat(2).take(11).skip(1).shard(2, 1));
  expect_same_after_serializing(range(4).flat_map(f.again).interleave(f.again, {.cycle = 3}));
  expect_same_after_serializing(generator(f.three).enumerate(5).prefetch(2).cache());
  const Dataset declared = generator(f.three, ElementSpec(TensorSpec{kInt64, Shape::unknown()}));
  expect_same_after_serializing(declared);
  EXPECT_EQ(Dataset::deserialize(declared.serialize()).element_spec(), declared.element_spec());
  expect_same_after_serializing(zip({range(3), range(4)}).concatenate(zip({range(2), range(2)})));
  expect_same_after_serializing(sample_from({range(5), range(6)}, {.weights = {1, 2}, .seed = 7}));
  expect_same_after_serializing(
      range(8).batch(4).rebatch({1, 2}).split_batches(2).unbatch().window(2));
  expect_same_after_serializing(range(6).scan(Element(int64_t{1}), f.sum));
  expect_same_after_serializing(
      range(6).take_while(f.even).options({.deterministic = true, .threads = 3}));
  expect_same_after_serializing(range(6).padded_batch(4, {.padding = {Tensor(int64_t{1})}}));
  expect_same_after_serializing(range(6).bucket_by_length(f.twice, {3}, {2, 2}));
  expect_same_after_serializing(
      from_tensors(Element::map({{"text", Tensor("it's \\ so")}, {"n", Tensor(1)}})));
  expect_same_after_serializing(from_tensor_slices(Tensor({"a", "b"}), Tensor({true, false})));
}

TEST(Serialize, FunctionsWithoutANameCannotBeSerialized) {
  const auto dataset = range(3).map([](Tensor x) { return x; });
  EXPECT_ERROR(Code::FailedPrecondition, "[Map] the function is C++ code", dataset.serialize());
  registered();
  EXPECT_ERROR(Code::AlreadyExists, "'test.double'", register_function("test.double", doubled));
  std::string bytes = range(3).map(registered().twice).serialize();
  const size_t at = bytes.find("test.double");
  bytes.replace(at, 11, "test.absent");
  EXPECT_ERROR(Code::NotFound, "function 'test.absent' is not registered",
               Dataset::deserialize(bytes));
}

TEST(Serialize, BadDescriptionsAreErrors) {
  EXPECT_ERROR(Code::InvalidArgument, "do not describe", Dataset::deserialize("\xff\xff"));
  EXPECT_ERROR(Code::InvalidArgument, "version 0", Dataset::deserialize(""));
}

TEST(Serialize, ADescriptionThatIsCutOffAnywhereIsAnError) {
  const std::string whole = range(9).shuffle(4).batch(2).serialize();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_ERROR(Code::InvalidArgument, "[Dataset]", Dataset::deserialize(whole.substr(0, size)));
  }
}

RC_GTEST_PROP(Serialize, DamagedDescriptionsThrowErrorsOnly, ()) {
  static const std::string whole =
      range(9).map(registered().twice).shuffle(4).padded_batch(2).rebatch({1, 2}).serialize();
  std::string bytes = whole;
  const auto damages = *rc::gen::inRange(0, 2);
  for (int i = 0; i < damages; ++i) {
    bytes[static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(bytes.size())))] =
        *rc::gen::arbitrary<char>();
  }
  (void)capture_status([&] { rest_of(Dataset::deserialize(bytes).take(20).iterator(), 20); });
}

}  // namespace
}  // namespace cohort::data
