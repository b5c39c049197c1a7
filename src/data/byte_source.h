#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/raise.h"

namespace cohort::data::internal {

using cohort::internal::raise;

// A stream of bytes: a file, memory, or what a decompressor makes of another source. Not
// thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `out` and returns how much; 0 only at the end. Throws DataLoss naming the
  // source when the bytes cannot be had.
  virtual size_t read(std::span<std::byte> out) = 0;
  // Bytes left, where that is known without reading: never for compressed data.
  virtual int64_t left() const { return -1; }
  // Moves `count` bytes on, as far as there are that many; false when only reading does it.
  virtual bool skip(int64_t /*count*/) { return false; }
  // What error messages call it: a path.
  virtual const std::string& name() const = 0;
};

// The file's bytes as they are. Throws NotFound, PermissionDenied or FailedPrecondition (a
// directory) with the path.
std::unique_ptr<ByteSource> open_file(const std::string& path);
// How often this thread has called it: what a function opens shows by the difference.
int64_t files_opened_here();
// Bytes that the caller keeps alive.
std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes, std::string name);
// `inner`, or what it decompresses to when it begins as gzip or zstd data do.
std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> inner);
// What users mean by reading a file: open_file and decompressed.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

// A buffer in front of a source, for readers that look at small parts. Parts of kDirectBytes and
// more go straight to where they are wanted; what follows such a part is often the frame of another
// one, so little is read ahead there. A source that fails throws once; after that it has ended, and
// what was buffered of the part that is not complete is gone.
class BufferedBytes {
 public:
  static constexpr size_t kBufferBytes = 256 << 10;
  static constexpr size_t kDirectBytes = 32 << 10;

  explicit BufferedBytes(std::unique_ptr<ByteSource> source);

  // What is buffered and not yet consumed, after reading more if that was nothing; empty at the
  // end.
  std::span<const std::byte> window();
  // As window(), but reads on until `count` bytes are there or the source ends. Longer than the
  // buffer makes the buffer grow.
  std::span<const std::byte> window(size_t count);
  void consume(size_t count);
  // Fills `out`; returns less than its size only at the end of the source.
  size_t read(std::span<std::byte> out);
  // Bytes consumed so far, counted after decompression.
  int64_t position() const { return position_; }
  // Moves to `position`, which must not lie before position(). False when the source ends earlier.
  bool advance_to(int64_t position);
  // Bytes between position() and the end where that is known, else -1.
  int64_t left() const;
  // Whether the source has failed, and making it so.
  bool failed() const { return failed_; }
  void fail();
  const std::string& name() const { return source_->name(); }

 private:
  static constexpr size_t kFirstAhead = 4 << 10;

  void fill();
  size_t read_source(std::span<std::byte> out);

  std::unique_ptr<ByteSource> source_;
  std::vector<std::byte> buffer_;
  size_t ahead_ = kFirstAhead;  // most that the next fill() reads; doubles with each
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t position_ = 0;
  bool failed_ = false;
};

// `count` bytes, whatever a file claims: memory is taken as bytes arrive, not in advance. Returns
// fewer when the source ends.
std::vector<std::byte> read_growing(BufferedBytes& bytes, int64_t count);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace cohort::data::internal
