// Files of lines that cannot be read.

#include "support/bad_files.h"
#include "support/compress.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

// Lines are any bytes; what can be wrong is their length, the compression, and the file itself.
TEST(BadFiles, TextLines) {
  const std::string longer(101, 'x');
  const std::string text = "one\ntwo\nthree\nfour\nfive\n";
  const std::string zipped = gzip(text);
  const std::string packed = zstd(text);
  std::vector<BadFile> cases = {
      {"first line", longer + "\nb\n", "line 1 is longer than 100 bytes"},
      {"second line", "a\n" + longer + "\nb\n", "line 2 is longer than 100 bytes"},
      {"last line", "a\nb\n" + longer + "\n", "line 3 is longer"},
      {"no line end", "a\n" + longer, "line 2 is longer"},
      {"windows line end", "a\r\n" + longer + "\r\n", "line 2 is longer"},
      {"behind empty lines", "\n\n\n" + longer, "line 4 is longer"},
      {"two of them", longer + "\n" + longer, "line 1 is longer"},
      {"much longer", std::string(1'000'000, 'x'), "line 1 is longer"},
      {"zeros", std::string(5000, '\0'), "line 1 is longer"},
      {"old Macintosh line ends", "a\r" + longer + "\rb", "line 1 is longer"},
      {"over-long in gzip", gzip("a\n" + longer), "line 2 is longer"},
      {"over-long in zstd", zstd("a\n" + longer), "line 2 is longer"},
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
  const std::vector<BadFile> cases = {
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

}  // namespace
}  // namespace cohort::data
