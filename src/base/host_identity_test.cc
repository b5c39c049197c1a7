#include "base/host_identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace cohort::internal {
namespace {

TEST(HostIdentity, IsTheSameWithinAProcess) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity().find("uid"), std::string::npos);
}

TEST(HostIdentity, AProcessIsDescribedByNumberAndHost) {
  EXPECT_EQ(process_description(), "process " + std::to_string(getpid()) + " on " + host_name());
}

}  // namespace
}  // namespace cohort::internal
