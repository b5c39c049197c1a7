#include "tensor/kernel_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace cohort::internal {
namespace {

// How many threads the BLAS uses for a product of the calling thread; 1 for a BLAS that does not
// say it.
int blas_threads() {
  for (const char* name : {"openblas_get_num_threads", "mkl_get_max_threads"}) {
    const auto ask = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
    if (ask != nullptr) return ask();
  }
  return 1;
}

TEST(KernelLibrary, AMatrixProductTakesOneThread) {
  set_up_kernel_library();
  const char* const chosen = std::getenv("MKL_NUM_THREADS");
  const int expected = chosen == nullptr ? 1 : blas_threads();
  EXPECT_EQ(blas_threads(), expected);
  std::thread([&] { EXPECT_EQ(blas_threads(), expected); }).join();
}

}  // namespace
}  // namespace cohort::internal
