// Files of records that are cut off or damaged.

#include "data/byte_source.h"
#include "support/bad_files.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

// A head that claims any length, with the right checksum.
std::string head_of(uint64_t length) {
  std::string head(reinterpret_cast<const char*>(&length), 8);
  const uint32_t crc = internal::masked_crc32c(head);
  return head + std::string(reinterpret_cast<const char*>(&crc), 4);
}

TEST(BadFiles, TFRecord) {
  const std::string good = framed("first") + framed("second");
  std::vector<BadFile> cases = {
      {"text", "this is not a record file", "checksum of its length"},
      {"huge", head_of(uint64_t{1} << 62) + "x", "at most"},
      {"all ones", head_of(~uint64_t{0}) + "x", "at most"},
      {"above the limit", head_of((uint64_t{1} << 30) + 1) + "x", "at most 1073741824"},
      {"at the limit", head_of(uint64_t{1} << 30) + "x", "but the file has 1 more"},
      {"missing tail", head_of(1) + "x", "but the file has 1 more"},
      {"no content", head_of(5), "but the file has 0 more"},
      {"content", with(good, 14, 'X'), "record 0: the checksum of its 5 bytes"},
      {"tail", with(good, 17, 'X'), "record 0: the checksum of its 5 bytes"},
      {"length", with(good, 0, '\x06'), "record 0: the checksum of its length"},
      {"length's checksum", with(good, 9, 'X'), "record 0: the checksum of its length"},
      {"second length", with(good, 21, '\1'), "record 1: the checksum of its length"},
      {"second content", with(good, good.size() - 6, 'X'), "record 1: the checksum of its 6"},
      {"extra byte", good + "x", "record 2: the file ends inside its length"},
      {"extra bytes", good + std::string(11, '\0'), "record 2: the file ends inside"},
      {"zeros", std::string(40, '\0'), "checksum of its length"},
      {"a line too many", good + "\n", "record 2"},
  };
  for (size_t length = 1; length < good.size(); length += 3) {
    if (length == framed("first").size()) continue;
    cases.push_back({"cut to " + std::to_string(length), good.substr(0, length), "record"});
  }
  const TemporaryDirectory directory;
  expect_errors(cases, 20,
                [&](const std::string& text) { texts(tfrecord(directory.file("a", text))); });
  // Where the file ended, it stays ended, also after its position was saved.
  Iterator broken = tfrecord(directory.file("a", with(good, 21, '\1'))).iterator();
  EXPECT_EQ(broken.next().to<std::string>(), "first");
  EXPECT_ERROR(Code::DataLoss, "record 1", broken.next());
  Iterator later = tfrecord(directory.path("a")).iterator(broken.save());
  EXPECT_FALSE(later.next_optional().has_value());
  // A damaged record is passed over, a damaged length ends the file.
  Iterator it = tfrecord(directory.file("a", with(good, 14, 'X'))).iterator();
  EXPECT_ERROR(Code::DataLoss, "record 0", it.next());
  EXPECT_EQ(it.next().to<std::string>(), "second");
  Iterator ended = tfrecord(directory.file("a", with(good, 0, '\x06'))).iterator();
  EXPECT_ERROR(Code::DataLoss, "record 0", ended.next());
  EXPECT_FALSE(ended.next_optional().has_value());
  EXPECT_EQ(texts(tfrecord(directory.file("a", with(good, 14, 'X')), {.check_crc = false}))[0],
            "fiXst");
}

TEST(BadFiles, Example) {
  const std::string good =
      make_example(Element::map({{"x", Tensor({1.f, 2.f})}, {"n", Tensor(3)}}));
  const auto parse = [](const Features& features) {
    return [features](const std::string& bytes) { parse_example(bytes, features); };
  };
  const Code bad = Code::InvalidArgument;
  EXPECT_NO_THROW(parse_example(good, {{"x", {kFloat32, {2}}}}));
  std::vector<BadFile> cuts;
  for (size_t length = 1; length < good.size(); ++length) {
    cuts.push_back(
        {"cut to " + std::to_string(length), good.substr(0, length), "[ParseExample]", bad});
  }
  expect_errors(cuts, 20, parse({{"x", {kFloat32, {2}}}, {"n", {kInt64}}}));
  const auto one = [&](const Features& features, const char* fragment) {
    expect_errors({{fragment, good, fragment, bad}}, 1, parse(features));
  };
  one({{"y", {kFloat32}}}, "no feature 'y'");
  one({{"x", {kInt64, {2}}}}, "feature 'x' is float32, but int64");
  one({{"n", {kFloat32}}}, "feature 'n' is int64, but float32");
  one({{"x", {kFloat32}}}, "has 2 values, but shape ()");
  one({{"x", {kFloat32, {3}}}}, "has 2 values, but shape (3,)");
  one({{"x", {kFloat32, {-1, 3}}}}, "has 2 values, but shape (None, 3)");
  one({{"x", {kFloat64, {2}}}}, "cannot be float64");
  one({{"x", {kFloat32, {2, -1}}}}, "only the first size");
  one({{"x", {kFloat32, Shape::unknown()}}}, "only the first size");
  one({{"z", {kFloat32, {}, Tensor(1)}}}, "fallback of feature 'z' must be");
  EXPECT_ERROR(bad, "needs a map", make_example(Element(Tensor(1))));
  EXPECT_ERROR(bad, "float64", make_example(Element::map({{"a", Tensor(1.0)}})));
}

TEST(BadFiles, FixedLengthAndCifar) {
  const TemporaryDirectory directory;
  const std::string image(3072, 'x');
  const std::string good = "\x01" + image;
  std::vector<BadFile> cases;
  for (const int label : {10, 11, 99, 127, 128, 255}) {
    cases.push_back(
        {"label", std::string(1, static_cast<char>(label)) + image, "not one of 10 classes"});
  }
  for (const size_t length : {1, 2, 100, 1000, 1024, 2048, 3000, 3070, 3071, 3072}) {
    cases.push_back({"cut", good.substr(0, length), "ends inside record 0"});
  }
  for (const size_t extra : {1, 2, 10, 1000, 3072}) {
    cases.push_back({"extra", good + std::string(extra, '\1'), "ends inside record 1"});
  }
  expect_errors(cases, 20, [&](const std::string& text) {
    rest_of(cifar10(directory.file("a.bin", text)).iterator());
    for (const Element& element : cifar10(directory.path("a.bin"))) (void)element;
  });
  EXPECT_ERROR(Code::DataLoss, "shorter than its header",
               texts(fixed_length_records(directory.file("b", "abc"), 2, {.header = 4})));
  EXPECT_ERROR(Code::DataLoss, "ends inside record 1",
               texts(fixed_length_records(directory.file("b", "abcde"), 2, {.footer = 2})));
  EXPECT_EQ(
      texts(fixed_length_records(directory.file("b", "HabcdF"), 2, {.header = 1, .footer = 1})),
      (std::vector<std::string>{"ab", "cd"}));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1", fixed_length_records("a", 0));
  EXPECT_ERROR(Code::InvalidArgument, "not supported", fixed_length_records("a", INT64_MAX));
}

}  // namespace
}  // namespace cohort::data
