#include <cmath>

#include "cohort/cross_device_ops.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using enum CommunicationImplementation;

TEST(CommunicationOptions, MergingKeepsWhatTheOtherLeavesAtItsDefault) {
  const CommunicationOptions base{
      .bytes_per_pack = 1000, .timeout_seconds = 30, .implementation = Ring};
  const CommunicationOptions merged = base.merged_with({.timeout_seconds = 5});
  EXPECT_EQ(merged.bytes_per_pack, 1000);
  EXPECT_EQ(merged.timeout_seconds, 5);
  EXPECT_EQ(merged.implementation, Ring);
}

TEST(CommunicationOptions, MergingTakesWhatTheOtherSets) {
  const CommunicationOptions merged =
      CommunicationOptions{}.merged_with({.bytes_per_pack = 7, .implementation = Nccl});
  EXPECT_EQ(merged.bytes_per_pack, 7);
  EXPECT_EQ(merged.timeout_seconds, std::nullopt);
  EXPECT_EQ(merged.implementation, Nccl);
}

TEST(CommunicationOptions, ZeroSecondsIsAChoiceThatMergingTakes) {
  const CommunicationOptions base{.timeout_seconds = 30};
  EXPECT_EQ(base.merged_with({.timeout_seconds = 0}).timeout_seconds, 0);
}

TEST(CommunicationOptions, AreChecked) {
  EXPECT_NO_THROW(check(CommunicationOptions{}));
  EXPECT_NO_THROW(check({.bytes_per_pack = 1, .timeout_seconds = 0, .implementation = Ring}));
  EXPECT_ERROR(Code::InvalidArgument, "bytes_per_pack", check({.bytes_per_pack = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "timeout_seconds", check({.timeout_seconds = -0.5}));
  EXPECT_ERROR(Code::InvalidArgument, "timeout_seconds", check({.timeout_seconds = NAN}));
  EXPECT_ERROR(Code::InvalidArgument, "implementation",
               check({.implementation = static_cast<CommunicationImplementation>(7)}));
}

TEST(CommunicationImplementation, IsReadInAnyCase) {
  EXPECT_EQ(parse_communication_implementation("AUTO"), Auto);
  EXPECT_EQ(parse_communication_implementation("Ring"), Ring);
  EXPECT_EQ(parse_communication_implementation("nccl"), Nccl);
  EXPECT_ERROR(Code::InvalidArgument, "auto, ring and nccl",
               parse_communication_implementation("mpi"));
}

}  // namespace
}  // namespace cohort
