#include "base/host_identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace cohort::internal {
namespace {

TEST(HostIdentity, IsTheSameWithinAProcess) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity().find("uid"), std::string::npos);
}

// What the only other process of this test says about its host, if both cannot read the boot's id.
std::string identity_of_child() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string own = host_identity("/nowhere");
    ::_exit(::write(ends[1], own.data(), own.size()) == static_cast<ssize_t>(own.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::array<char, 200> text{};
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  int ending = 1;
  EXPECT_EQ(::waitpid(child, &ending, 0), child);
  EXPECT_EQ(ending, 0);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

TEST(HostIdentity, OfAnUnknownBootIsThatOfOneProcess) {
  EXPECT_EQ(host_identity("/nowhere"), host_identity("/nowhere"));
  EXPECT_NE(host_identity("/nowhere"), host_identity());
  const std::string other = identity_of_child();
  EXPECT_FALSE(other.empty());
  EXPECT_NE(other, host_identity("/nowhere"));
}

TEST(HostIdentity, AProcessIsDescribedByNumberAndHost) {
  EXPECT_EQ(process_description(), "process " + std::to_string(getpid()) + " on " + host_name());
}

}  // namespace
}  // namespace cohort::internal
