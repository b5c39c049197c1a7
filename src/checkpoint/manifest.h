#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_extent.h"
#include "cohort/tensor.h"

namespace cohort::internal {

// A part of a tensor in one file.
struct SavedSlice {
  size_t file = 0;      // into Manifest::files
  std::string key;      // its name in the file
  Extent extent;        // the part of the tensor
  uint64_t begin = 0;   // of its bytes, from the beginning of the file
  uint64_t size = 0;    // in bytes
  uint32_t crc32c = 0;  // of these bytes
};

struct SavedEntry {
  DType dtype = kFloat32;
  Shape shape;
  std::vector<SavedSlice> slices;  // cover the shape without overlapping; strings have one
};

// A safetensors file of the checkpoint.
struct SavedFile {
  std::string name;  // without directory
  uint64_t size = 0;
  uint32_t header_crc32c = 0;  // of everything before the tensors' bytes
  std::string device = {};     // the writer; empty: the writer of the manifest
};

// The content of a checkpoint.
struct Manifest {
  std::optional<int64_t> step;
  int64_t saved_at_ms = 0;  // since 1970
  std::vector<SavedFile> files;
  std::map<std::string, SavedEntry> tensors;
};

// Times in files. A time outside the range of the clock becomes the nearest time inside.
int64_t to_ms(std::chrono::system_clock::time_point time);
std::chrono::system_clock::time_point from_ms(int64_t ms);

// Write and read the text of the manifest, which begins with a checksum of the rest. The reader
// throws DataLoss, naming the file and the tensor, for any wrong text, and Unimplemented for a
// newer version.
std::string manifest_text(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& file);

}  // namespace cohort::internal
