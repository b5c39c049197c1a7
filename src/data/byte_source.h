#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/raise.h"

namespace cohort::data::internal {

using cohort::internal::raise;

// A stream of bytes: a file, or the decompressed bytes of another source. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `out` and returns the number of bytes, 0 only at the end. Throws DataLoss
  // with the name of the source if the bytes cannot be read.
  virtual size_t read(std::span<std::byte> out) = 0;
  // Number of bytes left, -1 if that is unknown. For compressed data it always is.
  virtual int64_t left() const { return -1; }
  // Skips `count` bytes. Returns false if the caller has to read them instead.
  virtual bool skip(int64_t /*count*/) { return false; }
  // The name in error messages: a path.
  virtual const std::string& name() const = 0;
};

// Opens a file, without decompression. Throws NotFound, PermissionDenied or FailedPrecondition (a
// directory) with the path.
std::unique_ptr<ByteSource> open_file(const std::string& path);
// How often this thread has called open_file(): the difference shows whether a function opens
// files.
int64_t files_opened_here();
// Returns `inner`, decompressed if it begins with the magic number of gzip or zstd.
std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> inner);
// open_file() and decompressed().
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

// A buffer for a source, for readers that read small parts. Parts of at least kDirectBytes bypass
// the buffer. After such a part the buffer reads only little ahead, because another large part
// often follows. A source that fails throws once; after that it has ended, and the buffered bytes
// of an incomplete part are lost.
class BufferedBytes {
 public:
  static constexpr size_t kBufferBytes = 256 << 10;
  static constexpr size_t kDirectBytes = 32 << 10;

  explicit BufferedBytes(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  // Returns the bytes that are buffered and not yet consumed, and reads more if there are none.
  // Empty at the end.
  std::span<const std::byte> window();
  // As window(), but reads until `count` bytes are buffered or the source ends. The buffer grows if
  // necessary.
  std::span<const std::byte> window(size_t count);
  void consume(size_t count);
  // Consumes the rest of a line and its end.
  void consume_line();
  // Fills `out`, and returns less than its size only at the end of the source.
  size_t read(std::span<std::byte> out);
  // Bytes consumed so far, counted after decompression.
  int64_t position() const { return position_; }
  // Moves to `position`, which must not lie before position(). False when the source ends earlier.
  bool advance_to(int64_t position);
  // Number of bytes between position() and the end, -1 if that is unknown.
  int64_t left() const;
  bool failed() const { return failed_; }
  // Makes the source count as failed.
  void fail();
  const std::string& name() const { return source_->name(); }

 private:
  static constexpr size_t kFirstAhead = 4 << 10;

  void fill();
  size_t read_source(std::span<std::byte> out);

  std::unique_ptr<ByteSource> source_;
  std::vector<std::byte> buffer_;
  size_t ahead_ = kFirstAhead;  // the most that the next fill() reads; each fill() doubles it
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t position_ = 0;
  bool failed_ = false;
};

// Reads `count` bytes, fewer if the source ends. It allocates memory as bytes arrive, because
// `count` may be from a damaged file.
std::vector<std::byte> read_growing(BufferedBytes& bytes, int64_t count);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Writes a file. The bytes are only certain to be in the file after close(). Errors name the file.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  void write(std::string_view bytes);
  // Passes the written bytes to the operating system. Throws FailedPrecondition after close().
  void flush();
  // Throws if the last bytes cannot be written. Idempotent.
  void close();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::FILE* open_file() const;
  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// Returns the CRC-32C checksum, which iSCSI and TFRecord files use.
uint32_t crc32c(std::string_view bytes);
// Returns the checksum of the bytes with checksum `crc` followed by `bytes`. No bytes have checksum
// 0.
uint32_t extend_crc32c(uint32_t crc, std::string_view bytes);
// Returns the checksum as TFRecord files store it: rotated and shifted, because the checksum of
// data that contains checksums is weak.
uint32_t mask_crc32c(uint32_t crc);
inline uint32_t masked_crc32c(std::string_view bytes) { return mask_crc32c(crc32c(bytes)); }

}  // namespace cohort::data::internal
