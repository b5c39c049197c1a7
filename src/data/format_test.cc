// Saved positions and descriptions keep their bytes: other builds wrote some, and must read ours.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/byte_source.h"
#include "data/common_description.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

struct Registered {
  Function twice = register_function("format.twice", [](int64_t x) { return 2 * x; });
  Function row = register_function("format.row", [](Tensor x) { return x; });
  Function fails = register_function("format.fails", [](int64_t x) {
    if (x % 3 == 2) throw Error(Code::InvalidArgument, "two of three");
    return x;
  });
  Function small = register_function("format.small", [](int64_t x) { return x < 6; });
  Function even = register_function("format.even", [](int64_t x) { return x % 2 == 0; });
  Function sum =
      register_function("format.sum", [](int64_t a, int64_t b) { return std::pair(a + b, a * b); });
  DatasetFunction twin = register_dataset_function(
      "format.twin", [](Tensor x) { return from_tensors(x).repeat(4).shuffle(2); });
  GeneratorFunction five = register_generator("format.five", [] {
    return [i = int64_t{0}]() mutable -> std::optional<Element> {
      return i < 5 ? std::optional(Element(i++)) : std::nullopt;
    };
  });
};

const Registered& registered() {
  static const Registered all;
  return all;
}

// A working directory of its own, so that the names of files are the same in every run.
class WorkingDirectory {
 public:
  WorkingDirectory() { std::filesystem::current_path(directory_.path(".")); }
  ~WorkingDirectory() { std::filesystem::current_path(before_); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
  TemporaryDirectory directory_;
};

void write(const std::string& name, std::string_view content) {
  std::ofstream(name, std::ios::binary) << content;
}

// The checksum of the dataset's description, and of the positions after so many elements.
std::string checksums(Dataset dataset, const std::vector<int>& steps) {
  dataset = internal::with_drawn_seeds(dataset, internal::Random(7));
  std::string positions;
  for (const int count : steps) {
    Iterator it = dataset.iterator();
    for (int i = 0; i < count; ++i) (void)capture_status([&] { it.next_optional(); });
    const std::string position = it.save();
    EXPECT_EQ(dataset.iterator(position).save(), position);
    positions += position;
  }
  std::string description;
  (void)capture_status([&] { description = dataset.serialize(); });
  return fmt::format("{:08x} {:08x}", internal::crc32c(description), internal::crc32c(positions));
}

TEST(Format, OfSourcesAndSelectionsStays) {
  const Registered& f = registered();
  EXPECT_EQ(checksums(range(2, 20, 3), {0, 2, 9}), "acfb2546 62fbaa13");
  EXPECT_EQ(checksums(from_tensors(Tensor({1, 2})), {0, 1, 2}), "a1092f50 8c86219e");
  EXPECT_EQ(checksums(from_tensor_slices(Tensor({"a", "b"}), Tensor({true, false})), {0, 1, 3}),
            "d04df646 cb97da7b");
  EXPECT_EQ(checksums(generator(f.five), {0, 3, 9}), "77fa0f9c ac403758");
  EXPECT_EQ(checksums(range(9).take(5), {0, 3, 9}), "8d3c1916 f49168be");
  EXPECT_EQ(checksums(range(9).skip(5), {0, 3, 9}), "72b34d56 12426f2a");
  EXPECT_EQ(checksums(range(3).repeat(4), {0, 5, 20}), "14d88974 7f941b43");
  EXPECT_EQ(checksums(range(3).repeat(), {0, 5, 20}), "dde30ee9 d02a5488");
  EXPECT_EQ(checksums(range(9).filter(f.even), {0, 3, 20}), "24db9674 30063c4a");
  EXPECT_EQ(checksums(range(9).take_while(f.small), {0, 3, 20}), "180d9b79 72bf3311");
  EXPECT_EQ(checksums(range(9).shard(2, 1), {0, 3, 20}), "dbe3facd 40c8cebd");
  EXPECT_EQ(checksums(range(9).map(f.row).shard(3, 0, {.require_each = true}), {0, 1, 20}),
            "3622ba7f f860b70c");
  EXPECT_EQ(checksums(range(9).shuffle(4, {.seed = 3}), {0, 3, 20}), "652da795 ab967675");
  EXPECT_EQ(checksums(range(9).map(f.row).shuffle(4, {.seed = 3}).repeat(2), {0, 3, 12}),
            "a4ae4698 b24336dc");
}

TEST(Format, OfBatchesStays) {
  const Registered& f = registered();
  EXPECT_EQ(checksums(range(9).batch(2), {0, 2, 20}), "92d82282 ee692da1");
  EXPECT_EQ(checksums(range(9).map(f.fails).batch(4), {0, 1, 2, 20}), "6bac262e 553f972c");
  EXPECT_EQ(checksums(range(9).map(f.row).batch(4, {.drop_remainder = true}), {0, 1, 2, 20}),
            "25b70927 273162e7");
  EXPECT_EQ(checksums(range(9).batch(4, {.parallel = 2}), {0, 20}), "70712adf 9234b236");
  EXPECT_EQ(checksums(range(9).padded_batch(2, {.padding = {Tensor(int64_t{7})}}), {0, 2, 9}),
            "8356cc40 e938fa15");
  EXPECT_EQ(checksums(range(9).bucket_by_length(f.twice, {5, 9}, {2, 2, 2}), {0, 2, 9}),
            "7f8c1ef6 a0da3699");
  EXPECT_EQ(checksums(range(9).batch(4).rebatch({1, 0, 2}), {0, 1, 2, 3, 20}), "bb1abdb7 f1767bef");
  EXPECT_EQ(checksums(range(9).batch(4).split_batches(3), {0, 1, 2, 3, 20}), "98361179 0e08c6d0");
  EXPECT_EQ(checksums(range(9).batch(4).unbatch(), {0, 1, 2, 4, 20}), "fee10434 55db1279");
  EXPECT_EQ(checksums(range(9).window(3, {.shift = 2, .stride = 2}), {0, 1, 2, 20}),
            "7183500f 76dc3942");
  EXPECT_EQ(checksums(Element(range(9).window(3).iterator().next()).dataset(), {0, 1, 2, 20}),
            "fff8d695 fd3eaee3");
}

TEST(Format, OfFunctionsAndCombinationsStays) {
  const Registered& f = registered();
  EXPECT_EQ(checksums(range(9).map(f.twice).batch(2), {0, 1, 2, 20}), "d4632c51 effc7521");
  EXPECT_EQ(checksums(range(9).map(f.row, {.name = "x"}), {0, 1, 20}), "3bb894ea 997ce1b7");
  EXPECT_EQ(checksums(range(9).map(f.row, {.parallel = 2}), {0, 20}), "2c7e38f3 b709e994");
  EXPECT_EQ(checksums(range(9).prefetch(2), {0, 20}), "d53adc36 d18b3b9b");
  EXPECT_EQ(checksums(range(9).scan(Element(int64_t{1}), f.sum), {0, 1, 20}), "a8457447 426c8342");
  EXPECT_EQ(checksums(range(9).enumerate(3), {0, 1, 20}), "b5768ff1 ee5e5305");
  EXPECT_EQ(checksums(range(9).options({.deterministic = true, .threads = 3}), {0, 1}),
            "10d7dbde e03bfd07");
  EXPECT_EQ(checksums(range(9).flat_map(f.twin), {0, 1, 7, 99}), "28167a3f a08ff05e");
  EXPECT_EQ(checksums(range(9).interleave(f.twin, {.cycle = 3, .block = 2}), {0, 1, 7, 99}),
            "b3990fe9 4c09e953");
  EXPECT_EQ(checksums(zip({range(3), range(4)}), {0, 1, 9}), "c6ba3925 72dd74fd");
  EXPECT_EQ(checksums(range(3).concatenate(range(4)), {0, 1, 5, 9}), "b6615e36 741ba517");
  EXPECT_EQ(checksums(sample_from({range(3), range(4)}, {.weights = {1, 2}, .seed = 7}), {0, 5, 9}),
            "02dcf417 979db429");
  EXPECT_EQ(checksums(range(9).shuffle(9, {.seed = 1}).cache(), {0, 5, 10, 3}),
            "dd62e758 19344ed1");
}

TEST(Format, OfReadersStays) {
  const WorkingDirectory directory;
  write("lines", "one\na line that is too long\nthree\nfour\n");
  write("table", "a,b\n1,x\n2,y\nz,z\n4,\"q\"\"q\"\n");
  write("records", "headabcdefgh");
  write("cifar", std::string(2 * 3073, '\1'));
  TFRecordWriter writer("tfrecords");
  for (const char* record : {"a", "bb", "ccc"}) writer.write(record);
  writer.close();
  write_npy("array", Tensor({{1, 2}, {3, 4}, {5, 6}}));
  write("idx", std::string("\0\0\x08\x01\0\0\0\x03", 8) + "abc");
  EXPECT_EQ(checksums(files({"t*"}), {0, 1, 9}), "df7e293c cb97da7b");
  EXPECT_EQ(checksums(text_lines("lines", {.max_line_bytes = 9}), {0, 1, 2, 9}),
            "cb1bda7d aba93094");
  EXPECT_EQ(checksums(text_lines("lines", {.max_line_bytes = 9}).batch(2), {0, 1, 2, 9}),
            "ab963805 3ad773f9");
  EXPECT_EQ(checksums(csv("table", {{kInt32}, {kString}}), {0, 1, 2, 3, 9}), "48a6b001 047e8098");
  EXPECT_EQ(checksums(csv("table", {{kInt32}, {kString}}).batch(3), {0, 1, 2, 9}),
            "53f3b395 3188b56b");
  EXPECT_EQ(checksums(fixed_length_records("records", 3, {.header = 4}), {0, 1, 3, 9}),
            "6041bc70 24796f23");
  EXPECT_EQ(checksums(cifar10("cifar"), {0, 1, 9}), "ab11a086 f89cee55");
  EXPECT_EQ(checksums(tfrecord("tfrecords"), {0, 1, 9}), "d0686797 cc3fea95");
  EXPECT_EQ(checksums(npy("array"), {0, 1, 9}), "b32267d1 3f4b0c7c");
  EXPECT_EQ(checksums(idx("idx"), {0, 1, 9}), "d271dad1 e6846a50");
  EXPECT_EQ(checksums(range(9).shuffle(9, {.seed = 1}).cache("cached"), {0, 5, 10, 3}),
            "9ddb6d4d 19344ed1");
}

}  // namespace
}  // namespace cohort::data
