#include "tensor/kernel_library.h"

#include <malloc.h>

namespace cohort::internal {
namespace {

bool keep_freed_memory() {
  constexpr int kNever = 1 << 30;  // bytes; larger blocks are still mapped one by one
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
  return true;
}

}  // namespace

void set_up_kernel_library() { [[maybe_unused]] static const bool done = keep_freed_memory(); }

}  // namespace cohort::internal
