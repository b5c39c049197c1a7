#pragma once

// What tests of datasets share.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cohort/readers.h"
#include "support/expect_error.h"

namespace cohort::data {

using Numbers = std::vector<int64_t>;
using Rows = std::vector<Numbers>;

// The elements of a dataset of one int64 tensor each, flat.
inline Rows rows(const Dataset& dataset) {
  Rows all;
  for (const Element& element : dataset) all.push_back(element.tensor().to_vector<int64_t>());
  return all;
}

// The elements of a dataset of scalars.
inline Numbers numbers(const Dataset& dataset) {
  Numbers all;
  for (const Element& element : dataset) all.push_back(element.to<int64_t>());
  return all;
}

inline std::vector<std::string> texts(const Dataset& dataset) {
  std::vector<std::string> all;
  for (const Element& element : dataset) all.push_back(element.to<std::string>());
  return all;
}

// Everything that can be told apart about an element: structure, dtypes, shapes, values.
inline std::string fingerprint(const Element& element) {
  std::string text;
  for (const Tensor& tensor : element.tensors()) {
    text += to_string(tensor.dtype()) + tensor.shape().to_string() + "[";
    if (tensor.dtype() == kString) {
      for (const std::string& value : tensor.to_vector<std::string>()) text += value + "|";
    } else {
      for (const double value : tensor.to_vector<double>()) text += std::to_string(value) + "|";
    }
    text += "]";
  }
  return text;
}

// The rest of an iterator's elements; errors as their text.
inline std::vector<std::string> rest_of(Iterator it, int64_t most = 100'000) {
  std::vector<std::string> all;
  while (static_cast<int64_t>(all.size()) < most) {
    try {
      const std::optional<Element> element = it.next_optional();
      if (!element) break;
      all.push_back(fingerprint(*element));
    } catch (const Error& error) {
      all.push_back(error.message());
    }
  }
  return all;
}

// A directory of its own, gone at the end of the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort_data_XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string file(const std::string& name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::string path_;
};

// The name of a file that does not exist.
inline std::string new_cache_file() {
  static const TemporaryDirectory directory;
  static std::atomic<int> count = 0;
  return directory.path("cache" + std::to_string(count++));
}

}  // namespace cohort::data
