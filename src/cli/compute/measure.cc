#include "cli/compute/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cohort/ops.h"

namespace cohort::cli {

void measure_product() {
  constexpr int64_t kSize = 512;
  constexpr int kTimes = 5;
  const Tensor a = ones({kSize, kSize}), b = ones({kSize, kSize});
  double best = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    matmul(a, b);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  std::printf("%.1f\n", 2e-9 * kSize * kSize * kSize / best);
}

}  // namespace cohort::cli
