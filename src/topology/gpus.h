#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cohort::internal {

// What CUDA_VISIBLE_DEVICES names, up to a -1, which ends it; nothing when it is not set.
std::optional<std::vector<std::string>> named_gpus();

// How many GPUs the machine's driver knows.
int installed_gpu_count();

// How many of those this process may use. Asks the system, not the kernel library.
int visible_gpu_count();

}  // namespace cohort::internal
