#pragma once

#include <string>
#include <vector>

// What bench_strategies measures, one function for each part.
namespace cohort::bench {

// "CPU:0", "CPU:1", …
inline std::vector<std::string> cpus(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("CPU:" + std::to_string(i));
  return names;
}

void all_reduces();
void single_calls();
void training();
// The same beside PyTorch's DistributedDataParallel, where it is installed.
void training_beside_ddp();

}  // namespace cohort::bench
