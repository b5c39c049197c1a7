#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "cohort/tensor.h"

// Writes and reads one safetensors file of a checkpoint.
//
// The safetensors format: 8 bytes with the length of a JSON text, the text, then the bytes of the
// tensors without gaps. The text has the dtype, shape and position of each tensor.
namespace cohort::internal {

inline constexpr uint64_t kMaxHeaderBytes = 64 << 20;  // other readers take 100 MB

// A tensor in a file. Strings are bytes there.
struct SafetensorsEntry {
  DType dtype;
  Shape shape;
  uint64_t begin;  // from the beginning of the file
  uint64_t size;
};
using SafetensorsEntries = std::map<std::string, SafetensorsEntry>;

using KeyedTensors = std::map<std::string, Tensor>;

struct WrittenShard {
  uint64_t size = 0;
  uint32_t header_crc32c = 0;
  std::map<std::string, SavedSlice> tensors;  // by key, each a whole tensor
  std::string device = {};                    // the writer, in a report
};

// The bytes written so far, for a progress report.
using BytesWritten = std::atomic<int64_t>;

// Writes the file. Returns once the file is on the disk.
WrittenShard write_shard(const std::string& path, const KeyedTensors& tensors,
                         BytesWritten* progress = nullptr);
// The total number of bytes that write_shard() reports to `progress`.
int64_t total_bytes(std::span<const Tensor> tensors);

// Parses what the op WriteShard returns, on the task that writes the manifest: the report of
// another device. Trusts nothing.
WrittenShard parse_shard_report(std::string_view text, const std::string& device);

// Returns the length of the header, including the 8 bytes, of a file of that size, from its first 8
// bytes. Throws DataLoss naming the file.
uint64_t header_size(std::string_view first_bytes, uint64_t file_size, const std::string& file);
// The header of a safetensors file, for parse_header().
std::string read_header(const ReadFile& file);
// Parses a header of the length that header_size() returned. Throws DataLoss, naming the file and
// the tensor, for any wrong text, and Unimplemented for a dtype that tensors do not have.
SafetensorsEntries parse_header(std::string_view header, uint64_t file_size,
                                const std::string& file);

// Opens a file that the manifest describes. Throws DataLoss if its size or header differ.
ReadFile open_shard(const std::string& path, uint64_t size, uint32_t header_crc32c);

// An open file and the content of its header.
class ShardFile {
 public:
  ShardFile(const std::string& path, uint64_t size, uint32_t header_crc32c);

  // Reads the bytes of a slice. Does not compare their checksum.
  void read(uint64_t begin, std::span<std::byte> into) const { file_.read(begin, into); }
  const std::string& path() const { return file_.path(); }
  // The tensors in the header of the file.
  const SafetensorsEntries& entries() const { return entries_; }

 private:
  ReadFile file_;
  SafetensorsEntries entries_;
};

// The bytes of a tensor, little-endian: its elements, or for strings their lengths, 8 bytes each,
// then the strings. Keeps the tensor alive.
class TensorBytes {
 public:
  explicit TensorBytes(Tensor tensor);
  const Tensor& tensor() const { return tensor_; }
  std::string_view view() const;

 private:
  Tensor tensor_;
  std::string encoded_;  // of strings
};

// Reads strings back. Throws DataLoss, beginning with `what`, if the bytes are not strings.
Tensor decode_strings(std::string_view bytes, const Shape& shape, std::string_view what);

}  // namespace cohort::internal
