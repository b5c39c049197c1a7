#include <chrono>

#include "cohort/cross_device_ops.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using enum CommunicationImplementation;
using namespace std::chrono_literals;

TEST(CommunicationOptions, MergingKeepsWhatTheOtherLeavesAtItsDefault) {
  const CommunicationOptions base{.bytes_per_pack = 1000, .timeout = 30s, .implementation = Ring};
  const CommunicationOptions merged = base.merged_with({.timeout = 5s});
  EXPECT_EQ(merged.bytes_per_pack, 1000);
  EXPECT_EQ(merged.timeout, 5s);
  EXPECT_EQ(merged.implementation, Ring);
}

TEST(CommunicationOptions, MergingTakesWhatTheOtherSets) {
  const CommunicationOptions merged =
      CommunicationOptions{}.merged_with({.bytes_per_pack = 7, .implementation = Nccl});
  EXPECT_EQ(merged.bytes_per_pack, 7);
  EXPECT_EQ(merged.timeout, std::nullopt);
  EXPECT_EQ(merged.implementation, Nccl);
}

TEST(CommunicationOptions, AreChecked) {
  EXPECT_NO_THROW(check(CommunicationOptions{}));
  EXPECT_NO_THROW(check({.bytes_per_pack = 1, .timeout = 1ns, .implementation = Ring}));
  EXPECT_ERROR(Code::InvalidArgument, "bytes_per_pack", check({.bytes_per_pack = -1}));
  EXPECT_NO_THROW(check({.timeout = std::chrono::nanoseconds::max()}));
  EXPECT_NO_THROW(check({.timeout = 0s}));
  EXPECT_ERROR(Code::InvalidArgument, "timeout must be 0 (no limit) or positive, got -0.5 s",
               check({.timeout = -500ms}));
  EXPECT_ERROR(Code::InvalidArgument, "implementation",
               check({.implementation = static_cast<CommunicationImplementation>(7)}));
}

TEST(CommunicationImplementation, IsReadInAnyCase) {
  EXPECT_EQ(parse_communication_implementation("AUTO"), Auto);
  EXPECT_EQ(parse_communication_implementation("Ring"), Ring);
  EXPECT_EQ(parse_communication_implementation("nccl"), Nccl);
  EXPECT_ERROR(Code::InvalidArgument, "auto, ring or nccl",
               parse_communication_implementation("mpi"));
}

}  // namespace
}  // namespace cohort
