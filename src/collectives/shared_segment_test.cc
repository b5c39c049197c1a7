#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "collectives/shared_engine.h"
#include "support/expect_error.h"

namespace {

std::atomic<int> interruptions{0};  // that the next calls of posix_fallocate report

}  // namespace

// In the place of the system's, which reports a signal only if one comes at the right moment.
extern "C" int posix_fallocate(int file, off_t offset, off_t size) {
  if (interruptions > 0) {
    --interruptions;
    return EINTR;
  }
  return ::fallocate(file, 0, offset, size) == 0 ? 0 : errno;
}

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

TEST(SharedSegment, IsMadeAlthoughSignalsInterrupt) {
  interruptions = 3;
  const auto made = SharedSegment::create(4096);
  EXPECT_EQ(interruptions, 0);
  made->data()[4095] = std::byte{1};
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
