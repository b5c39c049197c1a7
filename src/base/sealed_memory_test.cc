#include "base/sealed_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Pages = SealedMemory::Pages;

FileDescriptor copied(const SealedMemory& memory) {
  return FileDescriptor(::dup(memory.descriptor()));
}

TEST(SealedMemory, IsZeroedAndKeepsItsSize) {
  for (const Pages pages : {Pages::AtOnce, Pages::OnUse}) {
    const SealedMemory memory(8192, pages);
    EXPECT_EQ(std::ranges::count(memory.bytes(), std::byte{0}), 8192);
    EXPECT_EQ(sealed_size(copied(memory)), 8192u);
    EXPECT_NE(::ftruncate(memory.descriptor(), 0), 0);
    EXPECT_NE(::ftruncate(memory.descriptor(), 16384), 0);
  }
}

TEST(SealedMemory, IsOneMemoryForAllThatMapIt) {
  SealedMemory made(4096, Pages::OnUse);
  const SealedMemory mapped(copied(made), 4096);
  made.forget_descriptor();
  made.bytes()[17] = std::byte{42};
  EXPECT_EQ(mapped.bytes()[17], std::byte{42});
}

TEST(SealedMemory, ThatTheSystemDoesNotHaveIsAnError) {
  EXPECT_ERROR(Code::ResourceExhausted, "cannot create",
               SealedMemory(size_t{1} << 62, Pages::AtOnce));
}

TEST(SealedMemory, OtherDescriptorsHaveNoSealedSize) {
  const FileDescriptor open_to_all(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_ERROR(Code::DataLoss, "not sealed", sealed_size(open_to_all));
  EXPECT_ERROR(Code::DataLoss, "not sealed", sealed_size(FileDescriptor()));
}

}  // namespace
}  // namespace cohort::internal
