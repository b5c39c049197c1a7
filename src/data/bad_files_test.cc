// Files that are cut off, damaged, over-long or of another format: each is an error that says so.

#include <zip.h>

#include <cstring>

#include "data/crc32c.h"
#include "data/npy.h"
#include "data/tfrecord.h"
#include "support/compress.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

using internal::BufferedBytes;
using internal::memory_source;

struct Case {
  std::string what;
  std::string bytes;
  std::string fragment;  // of the message
  Code code = Code::DataLoss;
};

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string s(const char* text, size_t size) { return std::string(text, size); }

// `bytes` with the one at `at` replaced.
std::string with(std::string bytes, size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

template <typename Read>
void expect_errors(const std::vector<Case>& cases, size_t least, const Read& read) {
  EXPECT_GE(cases.size(), least);
  for (const Case& one : cases) {
    const Status status = capture_status([&] { read(one.bytes); });
    EXPECT_EQ(status.code, one.code) << one.what << ": " << status.to_string();
    EXPECT_NE(status.message.find(one.fragment), std::string::npos)
        << one.what << ": " << status.to_string();
  }
}

Tensor parse_idx_text(const std::string& text) {
  BufferedBytes bytes(internal::decompressed(memory_source(as_bytes(text), "file")));
  return internal::parse_idx(bytes);
}

TEST(BadFiles, Idx) {
  const std::string good =
      s("\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
        "abcdef",
        18);
  EXPECT_EQ(parse_idx_text(good).size(), 6);
  std::vector<Case> cases = {
      {"empty", "", "shorter than its header"},
      {"first byte", with(good, 0, '\1'), "not an idx file"},
      {"second byte", with(good, 1, '\1'), "not an idx file"},
      {"type 0", with(good, 2, '\0'), "not an element type"},
      {"type 7", with(good, 2, '\x07'), "not an element type"},
      {"type 10", with(good, 2, '\x0a'), "not an element type"},
      {"type 15", with(good, 2, '\x0f'), "not an element type"},
      {"type 255", with(good, 2, '\xff'), "not an element type"},
      {"nine dimensions", with(good, 3, '\x09'), "announces 9 dimensions"},
      {"255 dimensions", with(good, 3, '\xff'), "announces 255 dimensions"},
      {"eight dimensions", with(good, 3, '\x08'), "ends inside of its header"},
      {"more rows", with(good, 7, '\x03'), "(3, 3) of uint8 is announced, but 6 bytes follow"},
      {"2^32 rows",
       s("\0\0\x08\x01\xff\xff\xff\xff"
         "ab",
         10),
       "4294967295"},
      {"overflow", s("\0\0\x0e\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16),
       "announced"},
      {"wider type", with(good, 2, '\x0d'), "float32 is announced"},
      {"fewer rows", with(good, 7, '\x01'), "goes on after"},
      {"a png", "\x89PNG\r\n\x1a\n", "not an idx file"},
      {"a csv", "a,b,c\n1,2,3\n", "not an idx file"},
      {"trailing byte", good + "x", "goes on after"},
      {"zero rows and content", with(good, 7, '\0'), "goes on after"},
      {"scalar with content",
       s("\0\0\x08\0"
         "ab",
         6),
       "goes on after"},
  };
  for (size_t length = 1; length < good.size(); length += 2) {
    cases.push_back({"cut to " + std::to_string(length), good.substr(0, length), "file"});
  }
  expect_errors(cases, 20, parse_idx_text);
}

Tensor parse_npy_text(const std::string& text) {
  BufferedBytes bytes(internal::decompressed(memory_source(as_bytes(text), "file")));
  return internal::parse_npy(bytes);
}

std::string npy_with(const std::string& header, const std::string& content = "abcd") {
  std::string text = s("\x93NUMPY\x01\0", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  return text + header + content;
}

std::vector<Case> npy_cases() {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
  EXPECT_EQ(parse_npy_text(npy_with(good)).size(), 1);
  const auto header = [](const std::string& descr, const std::string& order,
                         const std::string& shape) {
    return npy_with("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape +
                    "}");
  };
  std::vector<Case> cases = {
      {"empty", "", "not a NumPy array"},
      {"magic", "\x93NUMPX\x01", "not a NumPy array"},
      {"text", "hello, this is text", "not a NumPy array"},
      {"version 0", with(npy_with(good), 6, '\0'), "version 0", Code::Unimplemented},
      {"version 9", with(npy_with(good), 6, '\x09'), "version 9", Code::Unimplemented},
      {"huge header", s("\x93NUMPY\x02\0\xff\xff\xff\x7f{}", 14), "claims a header"},
      {"header cut", npy_with(good).substr(0, 30), "ends inside of its header"},
      {"no dictionary", npy_with("descr"), "'{' is missing"},
      {"empty dictionary", npy_with("{}"), "lacks one of"},
      {"unknown key", npy_with("{'dtype': '<f4'}"), "unknown or comes twice"},
      {"key twice", npy_with("{'descr': '<f4', 'descr': '<f4'}"), "unknown or comes twice"},
      {"unquoted key", npy_with("{descr: 1}"), "quoted name"},
      {"endless name", npy_with("{'descr"), "does not end"},
      {"no comma", npy_with("{'descr': '<f4' 'shape': (1,)}"), "',' or '}'"},
      {"objects", header("'|O'", "False", "(1,)"), "'O'", Code::Unimplemented},
      {"unicode", header("'<U3'", "False", "(1,)"), "'U3'", Code::Unimplemented},
      {"uint32", header("'<u4'", "False", "(1,)"), "'u4'", Code::Unimplemented},
      {"records", header("[('a', '<f4')]", "False", "(1,)"), "records", Code::Unimplemented},
      {"short descr", header("'f'", "False", "(1,)"), "too short"},
      {"order", header("'<f4'", "Maybe", "(1,)"), "not a bool"},
      {"negative size", header("'<f4'", "False", "(-1,)"), "bad size"},
      {"huge size", header("'<f4'", "False", "(99999999999999999999,)"), "bad size"},
      {"no size", header("'<f4'", "False", "(x,)"), "bad size"},
      {"open shape", npy_with("{'shape': (1"), "ends too early"},
      {"too many sizes", header("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), "8 dimensions",
       Code::Unimplemented},
      {"overflow", header("'<f8'", "False", "(4294967296, 4294967296, 16)"), "announced"},
      {"more rows", header("'<f4'", "False", "(2,)"), "but 4 bytes follow"},
      {"fewer rows", header("'<f4'", "False", "(0,)"), "goes on after"},
      {"trailing text", npy_with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x"),
       "follows the dictionary"},
  };
  return cases;
}

TEST(BadFiles, Npy) { expect_errors(npy_cases(), 20, parse_npy_text); }

// An archive with one member.
std::string zip_of(const std::string& name, const std::string& content) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.npz");
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, &error);
  zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
  zip_file_add(archive, name.c_str(), source, 0);
  zip_close(archive);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(BadFiles, Npz) {
  const std::string array = npy_with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n");
  const std::string good = zip_of("x.npy", array);
  EXPECT_EQ(internal::parse_npz(as_bytes(good), "file").at("x").size(), 1);
  std::vector<Case> cases = {
      {"empty", "", "not an .npz archive"},
      {"text", "hello", "not an .npz archive"},
      {"npy", array, "not an .npz archive"},
      {"no npy", zip_of("x.txt", "hello"), "not an .npy file"},
      {"front lost", good.substr(10), "file"},
      {"member size", with(good, 18, '\x01'), "file"},
  };
  for (const Case& one : npy_cases()) {
    cases.push_back({"member " + one.what, zip_of("x.npy", one.bytes), "", one.code});
  }
  for (size_t length = 1; length < good.size(); length += good.size() / 12) {
    cases.push_back({"cut to " + std::to_string(length), good.substr(0, length), "not an .npz"});
  }
  expect_errors(cases, 20,
                [](const std::string& text) { internal::parse_npz(as_bytes(text), "file"); });
}

// Lines are any bytes; what can be wrong is their length, the compression, and the file itself.
TEST(BadFiles, TextLines) {
  const std::string longer(101, 'x');
  const std::string text = "one\ntwo\nthree\nfour\nfive\n";
  const std::string zipped = gzip(text);
  const std::string packed = zstd(text);
  std::vector<Case> cases = {
      {"first line", longer + "\nb\n", "line 1: longer than 100 bytes"},
      {"second line", "a\n" + longer + "\nb\n", "line 2: longer than 100 bytes"},
      {"last line", "a\nb\n" + longer + "\n", "line 3: longer"},
      {"no line end", "a\n" + longer, "line 2: longer"},
      {"windows line end", "a\r\n" + longer + "\r\n", "line 2: longer"},
      {"behind empty lines", "\n\n\n" + longer, "line 4: longer"},
      {"two of them", longer + "\n" + longer, "line 1: longer"},
      {"much longer", std::string(1'000'000, 'x'), "line 1: longer"},
      {"zeros", std::string(5000, '\0'), "line 1: longer"},
      {"old Macintosh line ends", "a\r" + longer + "\rb", "line 1: longer"},
      {"over-long in gzip", gzip("a\n" + longer), "line 2: longer"},
      {"over-long in zstd", zstd("a\n" + longer), "line 2: longer"},
      {"gzip checksum", with(zipped, zipped.size() - 5, 'x'), "is damaged"},
      {"gzip length", with(zipped, zipped.size() - 1, 'x'), "is damaged"},
      {"gzip flags", with(zipped, 3, '\xe0'), "is damaged"},
      {"text behind gzip", zipped + text, "is damaged"},
      {"text behind zstd", packed + text, "is damaged"},
      {"zstd frame", with(packed, 4, '\xff'), "[Zstd]"},
      {"zstd block", with(packed, 6, '\x06'), "[Zstd]"},
  };
  for (const size_t part : {4, 6, 8}) {
    cases.push_back({"gzip cut", zipped.substr(0, zipped.size() * part / 9), "ends in the middle"});
    cases.push_back({"zstd cut", packed.substr(0, packed.size() * part / 9), "ends in the middle"});
  }
  const TemporaryDirectory directory;
  expect_errors(cases, 20, [&](const std::string& bytes) {
    texts(text_lines(directory.file("a.txt", bytes), {.max_line_bytes = 100}));
  });
  EXPECT_ERROR(Code::InvalidArgument, "must be one string", texts(text_lines(Files(range(1)))));
  EXPECT_ERROR(
      Code::InvalidArgument, "must be one string",
      texts(text_lines(Files(from_tensors(Tensor::from(std::vector<std::string>{"a", "b"}))))));
  EXPECT_ERROR(Code::NotFound, "No such file", texts(text_lines("")));
  EXPECT_ERROR(Code::InvalidArgument, "lines to skip", text_lines("a", {.skip_lines = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "length of a line", text_lines("a", {.max_line_bytes = 0}));
}

TEST(BadFiles, Csv) {
  const std::vector<Case> cases = {
      {"no number", "a,b\n1,x\n", "line 2, column 2 ('b'): 'x' is not float32"},
      {"half a number", "a,b\n1,2x\n", "'2x' is not float32"},
      {"two points", "a,b\n1,1.2.3\n", "line 2, column 2"},
      {"only a sign", "a,b\n-,1\n", "column 1 ('a'): '-' is not int32"},
      {"two signs", "a,b\n+-1,1\n", "'+-1' is not int32"},
      {"float for int", "a,b\n1.5,1\n", "'1.5' is not int32"},
      {"too large", "a,b\n3000000000,1\n", "is not int32"},
      {"far too large", "a,b\n99999999999999999999999,1\n", "is not int32"},
      {"float overflow", "a,b\n1,1e999\n", "is not float32"},
      {"hexadecimal", "a,b\n0x10,1\n", "'0x10' is not int32"},
      {"empty field", "a,b\n,1\n", "an empty field is not int32"},
      {"too few", "a,b\n1\n", "line 2: 2 fields were expected, but there are 1"},
      {"too many", "a,b\n1,2,3\n", "but there are 3"},
      {"later line", "a,b\n1,2\n\n3,4\n5\n", "line 5: 2 fields"},
      {"header too short", "a\n1,2\n", "line 1: the header names 1 columns, but 2"},
      {"header too long", "a,b,c\n1,2\n", "names 3 columns, but 2"},
      {"open quote", "a,b\n1,\"2\n3,4\n", "does not end"},
      {"open quote at the end", "a,b\n1,\"", "does not end"},
      {"text after quote", "a,b\n\"1\"x,2\n", "follows the closing quote"},
      {"quote inside", "a,b\n1\"2,3\"4\n", "has a quote inside"},
      {"line after a quoted line end", "a,b\n\"1\n\",2\nx,1\n", "column 1 ('a')"},
      {"over-long", "a,b\n" + std::string(5000, '1') + ",2\n", "longer than 1000 bytes"},
      {"over-long quoted", "a,b\n\"" + std::string(5000, '\n') + "\",2\n",
       "longer than 1000 bytes"},
      {"binary", s("a,b\n\0\1\2,\xff\n", 10), "is not int32"},
      {"nul in number", s("a,b\n1\0,2\n", 9), "is not int32"},
      {"other delimiter", "a;b\n1;2\n", "names 1 columns"},
  };
  const TemporaryDirectory directory;
  expect_errors(cases, 20, [&](const std::string& text) {
    rows(csv(directory.file("a.csv", text), {{kInt32}, {kFloat32}}, {.max_record_bytes = 1000})
             .map([](Tensor a, Tensor) { return a; }));
  });
  EXPECT_ERROR(Code::InvalidArgument, "empty", csv("a", {}));
  EXPECT_ERROR(Code::InvalidArgument, "ascend", csv("a", {{kInt32}, {kInt32}}, {.select = {1, 0}}));
  EXPECT_ERROR(Code::InvalidArgument, "2 columns are selected",
               csv("a", {{kInt32}}, {.select = {0, 1}}));
  EXPECT_ERROR(Code::InvalidArgument, "fallback", csv("a", {{kInt32, Tensor(1.f)}}));
  EXPECT_ERROR(Code::InvalidArgument, "delimiter", csv("a", {{kInt32}}, {.delimiter = '"'}));
  EXPECT_ERROR(Code::InvalidArgument, "resource", csv("a", {{kResource}}));
}

std::string framed(const std::string& record) {
  return internal::tfrecord_head(record) + record + internal::tfrecord_tail(record);
}

// A head that claims any length, with the right checksum.
std::string head_of(uint64_t length) {
  std::string head(reinterpret_cast<const char*>(&length), 8);
  const uint32_t crc = internal::masked_crc32c(head);
  return head + std::string(reinterpret_cast<const char*>(&crc), 4);
}

TEST(BadFiles, TFRecord) {
  const std::string good = framed("first") + framed("second");
  std::vector<Case> cases = {
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
      {"extra byte", good + "x", "record 2: the file ends inside of its length"},
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
  Iterator broken = tfrecord(directory.file("a", with(good, 21, '\1'))).iterate();
  EXPECT_EQ(broken.next().to<std::string>(), "first");
  EXPECT_ERROR(Code::DataLoss, "record 1", broken.next());
  Iterator later = tfrecord(directory.path("a")).iterate(broken.save());
  EXPECT_FALSE(later.next_optional().has_value());
  // A damaged record is passed over, a damaged length ends the file.
  Iterator it = tfrecord(directory.file("a", with(good, 14, 'X'))).iterate();
  EXPECT_ERROR(Code::DataLoss, "record 0", it.next());
  EXPECT_EQ(it.next().to<std::string>(), "second");
  Iterator ended = tfrecord(directory.file("a", with(good, 0, '\x06'))).iterate();
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
  std::vector<Case> cuts;
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
  one({{"z", {kFloat32, {}, Tensor(1)}}}, "fallback of feature 'z' is int32");
  EXPECT_ERROR(bad, "needs a map", make_example(Element(Tensor(1))));
  EXPECT_ERROR(bad, "float64", make_example(Element::map({{"a", Tensor(1.0)}})));
}

TEST(BadFiles, FixedLengthAndCifar) {
  const TemporaryDirectory directory;
  const std::string image(3072, 'x');
  const std::string good = "\x01" + image;
  std::vector<Case> cases;
  for (const int label : {10, 11, 99, 127, 128, 255}) {
    cases.push_back(
        {"label", std::string(1, static_cast<char>(label)) + image, "not one of 10 classes"});
  }
  for (const size_t length : {1, 2, 100, 1000, 1024, 2048, 3000, 3070, 3071, 3072}) {
    cases.push_back({"cut", good.substr(0, length), "ends inside of record 0"});
  }
  for (const size_t extra : {1, 2, 10, 1000, 3072}) {
    cases.push_back({"extra", good + std::string(extra, '\1'), "ends inside of record 1"});
  }
  expect_errors(cases, 20, [&](const std::string& text) {
    rest_of(cifar10(directory.file("a.bin", text)).iterate());
    for (const Element& element : cifar10(directory.path("a.bin"))) (void)element;
  });
  EXPECT_ERROR(Code::DataLoss, "shorter than its header",
               texts(fixed_length_records(directory.file("b", "abc"), 2, {.header = 4})));
  EXPECT_ERROR(Code::DataLoss, "ends inside of record 1",
               texts(fixed_length_records(directory.file("b", "abcde"), 2, {.footer = 2})));
  EXPECT_EQ(
      texts(fixed_length_records(directory.file("b", "HabcdF"), 2, {.header = 1, .footer = 1})),
      (std::vector<std::string>{"ab", "cd"}));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1", fixed_length_records("a", 0));
  EXPECT_ERROR(Code::InvalidArgument, "not supported", fixed_length_records("a", INT64_MAX));
}

std::string all_of(const std::string& text) {
  BufferedBytes bytes(internal::decompressed(memory_source(as_bytes(text), "file")));
  const auto content = internal::read_growing(bytes, int64_t{1} << 40);
  return std::string(internal::as_text(content));
}

TEST(BadFiles, Compressed) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string zipped = gzip(text);
  const std::string packed = zstd(text);
  EXPECT_EQ(all_of(zipped), text);
  EXPECT_EQ(all_of(packed), text);
  EXPECT_EQ(all_of(zipped + zipped), text + text);
  EXPECT_EQ(all_of(packed + packed), text + text);

  std::vector<Case> gzip_cases;
  std::vector<Case> zstd_cases;
  for (int i = 1; i < 25; ++i) {
    const size_t cut = 4 + zipped.size() * static_cast<size_t>(i) / 26;
    gzip_cases.push_back({"cut", zipped.substr(0, cut), "ends in the middle"});
    gzip_cases.push_back(
        {"damaged end",
         with(zipped, zipped.size() - 1 - static_cast<size_t>(i) % 8,
              static_cast<char>(zipped[zipped.size() - 1 - static_cast<size_t>(i) % 8] ^ 1)),
         "is damaged"});
    const size_t short_cut = 4 + packed.size() * static_cast<size_t>(i) / 26;
    zstd_cases.push_back({"cut", packed.substr(0, short_cut), "ends in the middle"});
  }
  gzip_cases.push_back({"text behind", zipped + "hello", "is damaged"});
  zstd_cases.push_back({"text behind", packed + "hello", "is damaged"});
  zstd_cases.push_back({"header", with(packed, 4, '\xff'), "[Zstd]"});
  const auto damage = [](const std::string& good, size_t at) {
    return with(good, at, static_cast<char>(good[at] ^ 0x55));
  };
  for (const size_t at : {3, 12, 20, 40, 80}) {
    gzip_cases.push_back({"damaged inside", damage(zipped, at), "[Gzip]"});
  }
  for (const size_t at : {5, 6, 7, 8}) {
    zstd_cases.push_back({"damaged inside", damage(packed, at), "[Zstd]"});
  }
  expect_errors(gzip_cases, 20, all_of);
  expect_errors(zstd_cases, 20, all_of);
}

// Whatever is read: what comes before the damage, one error, then the next file. Also when the
// position is saved in between.
TEST(BadFiles, DamagedCompressionIsOneErrorAndTheNextFileFollows) {
  const TemporaryDirectory directory;
  std::string lines;
  std::string records;
  for (int i = 0; i < 3000; ++i) {
    lines += std::to_string(1000 + i * 7919 % 9000) + "\n";
    records += framed(std::to_string(i * 7919));
  }
  struct Format {
    std::string name;
    std::string content;
    std::function<Dataset(const Files&)> read;
  };
  const std::vector<Format> formats = {
      {"text", lines, [](const Files& files) { return text_lines(files); }},
      {"csv", lines, [](const Files& files) { return csv(files, {{kInt32}}, {.header = false}); }},
      {"fixed", lines, [](const Files& files) { return fixed_length_records(files, 5); }},
      {"tfrecord", records, [](const Files& files) { return tfrecord(files); }}};
  for (const Format& format : formats) {
    const std::string good = directory.file("good", format.content);
    const auto all = rest_of(format.read(good).iterate());
    const std::string zipped = gzip(format.content);
    const std::string packed = zstd(format.content);
    const std::vector<std::string> damaged = {
        zipped.substr(0, zipped.size() / 2), packed.substr(0, packed.size() / 2),
        with(zipped, zipped.size() - 8, static_cast<char>(zipped[zipped.size() - 8] ^ 1))};
    for (const std::string& bytes : damaged) {
      const Dataset dataset = format.read({directory.file("bad", bytes), good});
      Iterator it = dataset.iterate();
      size_t before = 0;
      Status failure;
      while (failure.ok() && before <= all.size()) {
        failure = capture_status([&] { it.next(); });
        before += failure.ok() ? 1 : 0;
      }
      EXPECT_EQ(failure.code, Code::DataLoss) << format.name;
      const std::string position = it.save();
      EXPECT_EQ(rest_of(it), all) << format.name;
      EXPECT_EQ(rest_of(dataset.iterate(position)), all) << format.name;
    }
  }
}

TEST(BadFiles, NoCountIsBelievedBeforeTheBytesAreThere) {
  // Compressed, so that the size of the file says nothing: gigabytes are claimed, kilobytes come.
  std::string header = s("\0\0\x08\x02\x7f\xff\xff\xff\0\0\x10\0", 12);
  EXPECT_ERROR(Code::DataLoss, "only 0 of", parse_idx_text(zstd(header)));
}

}  // namespace
}  // namespace cohort::data
