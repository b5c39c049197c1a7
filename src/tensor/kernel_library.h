#pragma once

#include <cstddef>

namespace cohort::internal {

// Settings of the kernel library and of the C allocator that it takes memory from, made once per
// process before the first tensor: freed memory stays with the process, because fresh pages cost
// more than most kernels; a matrix product takes one thread. Where LibTorch contains MKL, so do
// its other kernels, unless MKL_NUM_THREADS says otherwise.
void set_up_kernel_library();

// While it lives, kernels that this thread starts use at most its share of the cores when `sharers`
// threads compute at the same time: more threads than cores would slow all of them down.
class [[nodiscard]] KernelThreadShare {
 public:
  explicit KernelThreadShare(size_t sharers);
  ~KernelThreadShare();
  KernelThreadShare(const KernelThreadShare&) = delete;
  KernelThreadShare& operator=(const KernelThreadShare&) = delete;

 private:
  int before_ = 0;  // 0: nothing was changed
};

}  // namespace cohort::internal
