#include "base/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_file.h"

namespace cohort::internal {
namespace {

// While it lives, the process has that soft limit.
class SoftLimit {
 public:
  SoftLimit(__rlimit_resource resource, rlim_t bytes) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(resource_, &limit);
  }
  ~SoftLimit() { ::setrlimit(resource_, &before_); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  const __rlimit_resource resource_;
  rlimit before_{};
};

// What memory_limit() says under a limit of that many bytes. Nothing allocates meanwhile.
size_t limit_under(__rlimit_resource resource, rlim_t bytes) {
  const SoftLimit limited(resource, bytes);
  return memory_limit();
}

TEST(MemoryLimit, IsTheSmallestLimitOfTheProcess) {
  constexpr rlim_t kLimit = 64 << 20;
  const size_t physical = physical_memory();
  EXPECT_GT(physical, kLimit);
  EXPECT_LE(memory_limit(), physical);
  EXPECT_EQ(limit_under(RLIMIT_DATA, kLimit), kLimit);
  EXPECT_EQ(limit_under(RLIMIT_AS, kLimit), kLimit);
  EXPECT_EQ(physical_memory(), physical);
}

// A directory in the place of /sys/fs/cgroup.
class MemoryCgroupTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = directory_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  std::optional<uint64_t> limit() const {
    return MemoryCgroup(directory_.path() + "/groups", directory_.path()).limit_bytes();
  }

  TemporaryDirectory directory_;
};

TEST_F(MemoryCgroupTest, HasTheLimitOfTheSecondVersion) {
  write("/groups", "0::/job/step");
  EXPECT_EQ(limit(), std::nullopt);
  write("/job/step/memory.max", "max");
  EXPECT_EQ(limit(), std::nullopt);
  write("/job/step/memory.max", "104857600");
  EXPECT_EQ(limit(), 104857600u);
}

TEST_F(MemoryCgroupTest, HasTheLimitOfTheFirstVersion) {
  write("/groups", "5:devices:/job\n4:memory:/job");
  write("/memory/job/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(limit(), std::nullopt);
  write("/memory/job/memory.limit_in_bytes", "2097152");
  EXPECT_EQ(limit(), 2097152u);
}

// A container sees its own group as the root.
TEST_F(MemoryCgroupTest, HasTheLimitOfAContainer) {
  write("/groups", "0::/outside/container");
  write("/memory.max", "4096");
  EXPECT_EQ(limit(), 4096u);
}

}  // namespace
}  // namespace cohort::internal
