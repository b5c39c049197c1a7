// Streams that begin with the magic number of gzip or zstd. Concatenated members and frames are one
// stream, as for the command line tools. Damage is DataLoss with the name of the compressed source.

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "data/byte_source.h"

namespace cohort::data::internal {
namespace {

constexpr size_t kInputBytes = 128 << 10;

// A source whose first bytes have been read to find the magic number.
class PushedBack : public ByteSource {
 public:
  PushedBack(std::vector<std::byte> front, std::unique_ptr<ByteSource> inner)
      : front_(std::move(front)), inner_(std::move(inner)) {}

  size_t read(std::span<std::byte> out) override {
    if (at_ == front_.size()) return inner_->read(out);
    const size_t count = std::min(out.size(), front_.size() - at_);
    std::memcpy(out.data(), front_.data() + at_, count);
    at_ += count;
    return count;
  }
  int64_t left() const override {
    const int64_t beyond = inner_->left();
    return beyond < 0 ? -1 : beyond + static_cast<int64_t>(front_.size() - at_);
  }
  bool skip(int64_t count) override {
    const auto held = static_cast<int64_t>(front_.size() - at_);
    if (count < held || !inner_->skip(count - held)) return false;
    at_ = front_.size();
    return true;
  }
  const std::string& name() const override { return inner_->name(); }

 private:
  std::vector<std::byte> front_;
  size_t at_ = 0;
  std::unique_ptr<ByteSource> inner_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      raise(Code::ResourceExhausted, "[Gzip] '{}': there is not enough memory for decompression",
            name());
    }
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(std::span<std::byte> out) override {
    constexpr size_t kMaxRead = 1 << 30;
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min(out.size(), kMaxRead));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted && step()) {
    }
    return wanted - stream_.avail_out;
  }
  const std::string& name() const override { return inner_->name(); }

 private:
  // Decompresses the input that is there, or reads more. Returns false at the end.
  bool step() {
    if (stream_.avail_in == 0) {
      const size_t got = inner_->read(input_);
      if (got == 0 && between_members_) return false;
      if (got == 0)
        raise(Code::DataLoss, "[Gzip] '{}' ends in the middle of compressed data", name());
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in = static_cast<uInt>(got);
    }
    between_members_ = false;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
      inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      raise(Code::DataLoss, "[Gzip] '{}' is damaged: {}", name(),
            stream_.msg != nullptr ? stream_.msg : "invalid data");
    }
    return true;
  }

  std::unique_ptr<ByteSource> inner_;
  z_stream stream_{};
  std::array<std::byte, kInputBytes> input_;
  bool between_members_ = false;
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> inner)
      : inner_(std::move(inner)), context_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    if (!context_)
      raise(Code::ResourceExhausted, "[Zstd] '{}': there is not enough memory for decompression",
            name());
  }

  size_t read(std::span<std::byte> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos == 0 && step(output)) {
    }
    return output.pos;
  }
  const std::string& name() const override { return inner_->name(); }

 private:
  bool step(ZSTD_outBuffer& output) {
    if (input_.pos == input_.size && !more_to_flush_) {
      input_ = {bytes_.data(), inner_->read(bytes_), 0};
      if (input_.size == 0 && between_frames_) return false;
      if (input_.size == 0) {
        raise(Code::DataLoss, "[Zstd] '{}' ends in the middle of compressed data", name());
      }
    }
    const size_t result = ZSTD_decompressStream(context_.get(), &output, &input_);
    if (ZSTD_isError(result)) {
      raise(Code::DataLoss, "[Zstd] '{}' is damaged: {}", name(), ZSTD_getErrorName(result));
    }
    between_frames_ = result == 0;
    more_to_flush_ = output.pos == output.size && result != 0;
    return true;
  }

  std::unique_ptr<ByteSource> inner_;
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> context_;
  std::array<std::byte, kInputBytes> bytes_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool between_frames_ = false;
  bool more_to_flush_ = false;  // the output was full, so that zstd may hold more of it
};

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return as_text(bytes).substr(0, magic.size()) == magic;
}

}  // namespace

std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> inner) {
  std::vector<std::byte> front(4);
  size_t have = 0;
  while (have < front.size()) {
    const size_t got = inner->read(std::span(front).subspan(have));
    if (got == 0) break;
    have += got;
  }
  front.resize(have);
  const bool gzip = begins_with(front, "\x1f\x8b\x08");
  const bool zstd = begins_with(front, "\x28\xb5\x2f\xfd");
  auto whole = std::make_unique<PushedBack>(std::move(front), std::move(inner));
  if (gzip) return std::make_unique<GzipSource>(std::move(whole));
  if (zstd) return std::make_unique<ZstdSource>(std::move(whole));
  return whole;
}

}  // namespace cohort::data::internal
