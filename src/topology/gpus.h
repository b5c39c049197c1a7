#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cohort::internal {

// The GPUs that CUDA_VISIBLE_DEVICES names, up to a -1; nothing if the variable is not set.
std::optional<std::vector<std::string>> named_gpus();

// How many GPUs the driver of this machine knows.
int installed_gpu_count();

// How many of the installed GPUs this process may use. Asks the system, not the kernel library.
int visible_gpu_count();

}  // namespace cohort::internal
