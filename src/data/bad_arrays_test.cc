// Files of arrays that are none: idx, npy, npz.

#include <zip.h>

#include <cstring>

#include "data/array_file.h"
#include "support/bad_files.h"
#include "support/compress.h"
#include "support/datasets.h"
#include "support/memory_source.h"

namespace cohort::data {
namespace {

using internal::BufferedBytes;
using internal::memory_source;

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
  std::vector<BadFile> cases = {
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
      {"eight dimensions", with(good, 3, '\x08'), "ends inside its header"},
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

std::vector<BadFile> npy_cases() {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
  EXPECT_EQ(parse_npy_text(npy_with(good)).size(), 1);
  const auto header = [](const std::string& descr, const std::string& order,
                         const std::string& shape) {
    return npy_with("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape +
                    "}");
  };
  std::vector<BadFile> cases = {
      {"empty", "", "not a NumPy array"},
      {"magic", "\x93NUMPX\x01", "not a NumPy array"},
      {"text", "hello, this is text", "not a NumPy array"},
      {"version 0", with(npy_with(good), 6, '\0'), "version 0", Code::Unimplemented},
      {"version 9", with(npy_with(good), 6, '\x09'), "version 9", Code::Unimplemented},
      {"huge header", s("\x93NUMPY\x02\0\xff\xff\xff\x7f{}", 14), "claims a header"},
      {"header cut", npy_with(good).substr(0, 30), "ends inside its header"},
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
  std::vector<BadFile> cases = {
      {"empty", "", "not an .npz archive"},
      {"text", "hello", "not an .npz archive"},
      {"npy", array, "not an .npz archive"},
      {"no npy", zip_of("x.txt", "hello"), "not an .npy file"},
      {"front lost", good.substr(10), "file"},
      {"member size", with(good, 18, '\x01'), "file"},
  };
  for (const BadFile& one : npy_cases()) {
    cases.push_back({"member " + one.what, zip_of("x.npy", one.bytes), "", one.code});
  }
  for (size_t length = 1; length < good.size(); length += good.size() / 12) {
    cases.push_back({"cut to " + std::to_string(length), good.substr(0, length), "not an .npz"});
  }
  expect_errors(cases, 20,
                [](const std::string& text) { internal::parse_npz(as_bytes(text), "file"); });
}

TEST(BadFiles, NoCountIsBelievedBeforeTheBytesAreThere) {
  // Compressed, so that the size of the file says nothing: gigabytes are claimed, kilobytes come.
  std::string header = s("\0\0\x08\x02\x7f\xff\xff\xff\0\0\x10\0", 12);
  EXPECT_ERROR(Code::DataLoss, "only 0 of", parse_idx_text(zstd(header)));
}

}  // namespace
}  // namespace cohort::data
