#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collectives/shared_engine.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

FileDescriptor descriptor_of(const SharedSegment& segment) {
  return FileDescriptor(::dup(segment.descriptor()));
}

TEST(SharedSegment, IsOneMemoryForAllThatMapIt) {
  const auto made = SharedSegment::create(4096);
  const auto mapped = SharedSegment::map(descriptor_of(*made), 4096);
  made->data()[17] = std::byte{42};
  EXPECT_NE(made->data(), mapped->data());
  EXPECT_EQ(mapped->data()[17], std::byte{42});
}

TEST(SharedSegment, CannotBeCutOrGrown) {
  const auto made = SharedSegment::create(4096);
  EXPECT_NE(::ftruncate(made->descriptor(), 0), 0);
  EXPECT_NE(::ftruncate(made->descriptor(), 8192), 0);
}

TEST(SharedSegment, MapsOnlySealedMemoryOfTheExpectedSize) {
  const auto made = SharedSegment::create(4096);
  EXPECT_ERROR(Code::DataLoss, "expected 8192 sealed bytes, got 4096",
               SharedSegment::map(descriptor_of(*made), 8192));
  FileDescriptor open_to_all(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open_to_all.get(), 4096), 0);
  EXPECT_ERROR(Code::DataLoss, "sealed", SharedSegment::map(std::move(open_to_all), 4096));
}

}  // namespace
}  // namespace cohort::internal
