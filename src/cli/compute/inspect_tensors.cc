// Checkpoints and safetensors files.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/raise.h"
#include "cli/compute/inspect.h"
#include "cohort/checkpoint.h"

namespace cohort::cli {
namespace {

constexpr std::string_view kManifest = ".manifest.json";

// The path may be the prefix, the manifest or the directory of a checkpoint.
std::string prefix_of(const std::string& path) {
  if (path.ends_with(kManifest)) return path.substr(0, path.size() - kManifest.size());
  if (!std::filesystem::is_directory(path)) return path;
  const auto latest = latest_checkpoint(path, {.check = CheckpointCheck::Sizes});
  if (!latest) internal::raise(Code::NotFound, "[Inspect] there is no checkpoint in '{}'", path);
  return *latest;
}

uint64_t bytes_of(const SavedTensor& tensor) {
  return static_cast<uint64_t>(tensor.shape.num_elements() * size_of(tensor.dtype));
}

void print_tensors(const std::vector<SavedTensor>& tensors, const InspectOptions& options) {
  uint64_t bytes = 0;
  for (const SavedTensor& tensor : tensors) bytes += bytes_of(tensor);
  fmt::print("{} tensors, {:.1f} MB\n", tensors.size(), static_cast<double>(bytes) * 1e-6);
  for (size_t i = 0; i < shown(tensors.size(), options); ++i) {
    fmt::print("  {:<40} {:<8} {}\n", tensors[i].name, to_string(tensors[i].dtype),
               tensors[i].shape.to_string());
  }
  print_rest(tensors.size(), options);
}

}  // namespace

size_t shown(size_t count, const InspectOptions& options) {
  return options.limit <= 0 ? count : std::min(count, static_cast<size_t>(options.limit));
}

void print_rest(size_t count, const InspectOptions& options) {
  if (const size_t rest = count - shown(count, options)) {
    fmt::print("  ... {} more (--limit 0 shows all)\n", rest);
  }
}

void inspect_checkpoint(const std::string& path, const InspectOptions& options) {
  const CheckpointReader reader(prefix_of(path));
  const auto saved = std::chrono::time_point_cast<std::chrono::seconds>(reader.saved_at());
  fmt::print("checkpoint {}\n", reader.prefix());
  if (reader.step()) fmt::print("step {}, ", *reader.step());
  fmt::print("saved {:%Y-%m-%d %H:%M:%S} UTC, {} files\n", saved, reader.files().size());
  for (const std::string& file : reader.files()) {
    if (!std::filesystem::exists(file)) fmt::print("  '{}' is not on this machine\n", file);
  }
  print_tensors(reader.tensors(), options);
  if (!options.verify) return;
  reader.verify();
  fmt::print("all checksums are right\n");
}

void inspect_safetensors(const std::string& path, const InspectOptions& options) {
  std::vector<SavedTensor> tensors;
  for (const auto& [name, tensor] : load_safetensors(path)) {
    tensors.push_back({name, tensor.dtype(), tensor.shape()});
  }
  fmt::print("safetensors file {}\n", path);
  print_tensors(tensors, options);
}

}  // namespace cohort::cli
