#include "base/read_file.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "support/temporary_file.h"

namespace cohort::internal {
namespace {

TEST(ReadFile, GivesAllBytes) {
  const TemporaryDirectory directory;
  for (const size_t size : {0u, 1u, 4095u, 4096u, 4097u, 100'000u}) {
    std::string text(size, 'a');
    if (size > 0) text.back() = '\0';
    EXPECT_EQ(read_file(directory.write("file", text)), text);
  }
}

TEST(ReadFile, EndsAtTheLimit) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("file", std::string(5000, 'a'));
  EXPECT_EQ(read_file(path, 4999)->size(), 4999u);
  EXPECT_EQ(read_file(path, 5000)->size(), 5000u);
  EXPECT_EQ(read_file(path, 5001)->size(), 5000u);
  EXPECT_EQ(read_file(path, 0), "");
}

TEST(ReadFile, GivesFilesThatDoNotTellTheirSize) {
  EXPECT_NE(read_file("/proc/self/status")->find("\nPid:"), std::string::npos);
}

TEST(ReadFile, GivesNothingForWhatIsNotAFile) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(read_file(directory.path() + "/missing"));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(read_file(directory.path()));
}

}  // namespace
}  // namespace cohort::internal
