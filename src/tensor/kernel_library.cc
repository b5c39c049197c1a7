#include "tensor/kernel_library.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/machine.h"

namespace cohort::internal {
namespace {

// The kernel library allocates aligned memory for all tensors, for which glibc cuts larger blocks
// into pieces. If another thread frees the pieces, glibc does not join them again, and a process
// that hands small tensors to other threads grows for ever. So small blocks come from plain malloc:
// no vector instruction loads so few bytes that their alignment matters.
class SmallBlocks : public at::Allocator {
 public:
  explicit SmallBlocks(at::Allocator& others) : others_(others) {}

  // The first of these functions overrides in LibTorch 1.13, the other two in 2.15.
  at::DataPtr allocate(size_t bytes) const { return allocate_block(bytes); }
  at::DataPtr allocate(size_t bytes) { return allocate_block(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }
  // free() takes both kinds of blocks.
  at::DeleterFnPtr raw_deleter() const override { return others_.raw_deleter(); }

 private:
  at::DataPtr allocate_block(size_t bytes) const {
    constexpr size_t kSmallBlock = 64;
    void* const block = bytes > 0 && bytes <= kSmallBlock ? std::malloc(bytes) : nullptr;
    if (block == nullptr) return others_.allocate(bytes);
    c10::profiledCPUMemoryReporter().New(block, bytes);
    return {block, block, others_.raw_deleter(), at::Device(at::DeviceType::CPU)};
  }

  at::Allocator& others_;
};

bool keep_freed_memory() {
  constexpr int kNever = 1 << 30;  // bytes; larger blocks are still mapped one by one
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
  static auto* const blocks = new SmallBlocks(*c10::GetDefaultCPUAllocator());  // never destroyed
  c10::SetCPUAllocator(blocks);
  return true;
}

// One thread per call: replicas share the cores, and a BLAS that starts threads of its own takes
// them away. OpenBLAS's own settings, found at run time because any BLAS may be the system's.
bool limit_blas_threads() {
  const auto kind = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (kind == nullptr || set == nullptr) return false;
  if (kind() == 0) {
    log_warning(
        "[BLAS] the selected BLAS is the serial OpenBLAS, which computes wrongly now and then when "
        "several threads call it; on Debian: apt-get install libopenblas0-pthread");
  }
  set(1);
  return true;
}

// MKL, which is part of LibTorch's own downloads, exports no function that sets this for all
// threads, and reads the environment when it is first called. So that is done before main(), where
// no other thread reads the environment, and child processes do not inherit the variable.
bool limit_mkl_threads() {
  const auto first_call = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "mkl_get_max_threads"));
  if (first_call == nullptr || std::getenv("MKL_NUM_THREADS") != nullptr) return false;
  setenv("MKL_NUM_THREADS", "1", /*overwrite=*/1);
  first_call();
  unsetenv("MKL_NUM_THREADS");
  return true;
}
[[maybe_unused]] const bool kMklIsLimited = limit_mkl_threads();

}  // namespace

void set_up_kernel_library() {
  [[maybe_unused]] static const bool done = keep_freed_memory() && limit_blas_threads();
}

KernelThreadShare::KernelThreadShare(size_t sharers) {
  if (sharers <= 1) return;
  const int now = at::get_num_threads();
  const auto cores = static_cast<size_t>(std::max(1u, core_count()));
  const int share = static_cast<int>(std::max<size_t>(1, cores / sharers));
  if (now <= share) return;
  before_ = now;
  at::set_num_threads(share);
}

KernelThreadShare::~KernelThreadShare() {
  if (before_ > 0) at::set_num_threads(before_);
}

}  // namespace cohort::internal
