#pragma once

// What tests of Saver share.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"

namespace cohort {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;

// How many files of the directory have names that end so.
inline size_t count_ending(const std::string& directory, const std::string& ending) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    count += entry.path().string().ends_with(ending) ? 1 : 0;
  }
  return count;
}

class SaverTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  const std::string& directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace cohort
