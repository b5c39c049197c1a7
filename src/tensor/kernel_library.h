#pragma once

namespace cohort::internal {

// Settings of the kernel library and of the C allocator that it takes memory from, made once per
// process before the first tensor: freed memory stays with the process, because fresh pages cost
// more than most kernels; a matrix product takes one thread.
void set_up_kernel_library();

}  // namespace cohort::internal
