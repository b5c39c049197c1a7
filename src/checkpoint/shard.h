#pragma once

#include <atomic>
#include <map>
#include <span>
#include <string>

#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

// One safetensors file of a checkpoint: writing it, and reading from it.
namespace cohort::internal {

using KeyedTensors = std::map<std::string, Tensor>;

// How the bytes of one tensor ended up in the file.
struct WrittenTensor {
  Shape shape;
  uint64_t begin = 0;
  uint64_t size = 0;
  uint32_t crc32c = 0;
};
struct WrittenShard {
  uint64_t size = 0;
  uint32_t header_crc32c = 0;
  std::map<std::string, WrittenTensor> tensors;  // by key
  std::string device = {};                       // that wrote it, in a report
};

// Bytes written so far, for those who watch.
using BytesWritten = std::atomic<int64_t>;

// Writes the file, which exists when this returns, and is on the disk.
WrittenShard write_shard(const std::string& path, const KeyedTensors& tensors,
                         BytesWritten* progress = nullptr);
// What write_shard would tell `progress` in all.
int64_t total_bytes(const KeyedTensors& tensors);

// What a task that wrote a shard tells the one that writes the manifest. Reading trusts nothing.
std::string shard_report(const WrittenShard& shard);
WrittenShard parse_shard_report(std::string_view text, const std::string& device);

// The header of a safetensors file, for parse_header().
std::string read_header(const ReadFile& file);

// Opens a file of which the manifest says this. DataLoss when size or header differ.
ReadFile open_shard(const std::string& path, uint64_t size, uint32_t header_crc32c);

// Such a file, and what it says itself.
class ShardFile {
 public:
  ShardFile(const std::string& path, uint64_t size, uint32_t header_crc32c);

  // The bytes of a slice; nobody has compared their checksum yet.
  void read(uint64_t begin, std::span<std::byte> into) const { file_.read(begin, into); }
  const std::string& path() const { return file_.path(); }
  // What the file itself says.
  const SafetensorsEntries& entries() const { return entries_; }

 private:
  ReadFile file_;
  SafetensorsEntries entries_;
};

}  // namespace cohort::internal
