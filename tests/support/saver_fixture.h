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

// How many files of the folder have names that end so.
inline size_t count_ending(const std::string& folder, const std::string& ending) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += entry.path().string().ends_with(ending) ? 1 : 0;
  }
  return count;
}

class SaverTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  const std::string& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace cohort
