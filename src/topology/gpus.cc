#include "topology/gpus.h"

#include <algorithm>
#include <filesystem>

#include "topology/text.h"

namespace cohort::internal {

std::optional<std::vector<std::string>> named_gpus() {
  const std::optional<std::string> value = environment_variable("CUDA_VISIBLE_DEVICES");
  if (!value) return std::nullopt;
  std::vector<std::string> ids;
  for (const std::string_view part : split(*value, ',')) {
    const std::string_view id = trimmed(part);
    if (id.empty() || id == "-1") break;
    ids.emplace_back(id);
  }
  return ids;
}

int installed_gpu_count() {
  std::error_code none;
  const std::filesystem::directory_iterator found("/proc/driver/nvidia/gpus", none);
  return none ? 0 : static_cast<int>(std::distance(begin(found), end(found)));
}

int visible_gpu_count() {
  const int installed = installed_gpu_count();
  const std::optional<std::vector<std::string>> named = named_gpus();
  return named ? std::min(installed, static_cast<int>(named->size())) : installed;
}

}  // namespace cohort::internal
