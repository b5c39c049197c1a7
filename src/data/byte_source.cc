#include "data/byte_source.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file_descriptor.h"

namespace cohort::data::internal {

using cohort::internal::code_of_errno;
using cohort::internal::errno_text;

namespace {

[[noreturn]] void raise_open_failure(const std::string& path, int error) {
  raise(error == ENOTDIR ? Code::NotFound : code_of_errno(error), "[Open] cannot read '{}': {}",
        path, errno_text(error));
}

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path)
      : name_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!file_) raise_open_failure(path, errno);
    struct stat info {};
    if (::fstat(file_.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
      raise(Code::FailedPrecondition, "[Open] '{}' is a directory, not a file", path);
    }
    if (S_ISREG(info.st_mode)) size_ = info.st_size;
    ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  size_t read(std::span<std::byte> out) override {
    ssize_t got = 0;
    do {
      got = ::read(file_.get(), out.data(), out.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) raise(Code::DataLoss, "[Read] cannot read '{}': {}", name_, std::strerror(errno));
    at_ += got;
    return static_cast<size_t>(got);
  }

  int64_t left() const override { return size_ < 0 ? -1 : std::max<int64_t>(0, size_ - at_); }

  bool skip(int64_t count) override {
    if (size_ < 0 || count > left() || ::lseek(file_.get(), count, SEEK_CUR) < 0) return false;
    at_ += count;
    return true;
  }

  const std::string& name() const override { return name_; }

 private:
  std::string name_;
  cohort::internal::FileDescriptor file_;
  int64_t size_ = -1;  // unknown for pipes
  int64_t at_ = 0;
};

thread_local int64_t files_opened = 0;

}  // namespace

int64_t files_opened_here() { return files_opened; }

std::unique_ptr<ByteSource> open_file(const std::string& path) {
  ++files_opened;
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  return decompressed(open_file(path));
}

void BufferedBytes::fail() {
  failed_ = true;
  begin_ = end_ = 0;
}

size_t BufferedBytes::read_source(std::span<std::byte> out) {
  if (failed_) return 0;
  try {
    return source_->read(out);
  } catch (...) {
    fail();
    throw;
  }
}

void BufferedBytes::fill() {
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  if (begin_ == end_) begin_ = end_ = 0;
  const std::span<std::byte> room = std::span(buffer_).subspan(end_);
  end_ += read_source(room.first(std::min(room.size(), ahead_)));
  ahead_ = std::min(2 * ahead_, buffer_.size());
}

std::span<const std::byte> BufferedBytes::window() {
  if (begin_ == end_) fill();
  return {buffer_.data() + begin_, end_ - begin_};
}

std::span<const std::byte> BufferedBytes::window(size_t count) {
  while (end_ - begin_ < count) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() < count) {
      // The buffer grows with the bytes that arrive, because `count` may be from a damaged file.
      buffer_.resize(std::min(count, std::max(kBufferBytes, 2 * buffer_.size())));
    }
    const size_t before = end_;
    fill();
    if (end_ == before) break;
  }
  return {buffer_.data() + begin_, end_ - begin_};
}

void BufferedBytes::consume(size_t count) {
  begin_ += count;
  position_ += static_cast<int64_t>(count);
}

void BufferedBytes::consume_line() {
  for (;;) {
    const std::string_view text = as_text(window());
    const size_t end = text.find('\n');
    consume(std::min(text.size(), end == std::string_view::npos ? end : end + 1));
    if (text.empty() || end != std::string_view::npos) return;
  }
}

size_t BufferedBytes::read(std::span<std::byte> out) {
  size_t done = std::min(out.size(), end_ - begin_);
  if (done > 0) std::memcpy(out.data(), buffer_.data() + begin_, done);
  consume(done);
  while (done < out.size()) {
    const std::span<std::byte> rest = out.subspan(done);
    if (rest.size() >= kDirectBytes) {
      const size_t got = read_source(rest);
      if (got == 0) break;
      position_ += static_cast<int64_t>(got);
      done += got;
      ahead_ = kFirstAhead;
      continue;
    }
    const std::span<const std::byte> part = window();
    if (part.empty()) break;
    const size_t count = std::min(rest.size(), part.size());
    std::memcpy(rest.data(), part.data(), count);
    consume(count);
    done += count;
  }
  return done;
}

bool BufferedBytes::advance_to(int64_t position) {
  while (position_ < position) {
    const int64_t wanted = position - position_;
    if (begin_ == end_ && !failed_ && source_->skip(wanted)) {
      position_ = position;
      break;
    }
    const std::span<const std::byte> part = window();
    if (part.empty()) return false;
    consume(std::min(part.size(), static_cast<size_t>(wanted)));
  }
  return true;
}

int64_t BufferedBytes::left() const {
  if (failed_) return 0;
  const int64_t beyond = source_->left();
  return beyond < 0 ? -1 : beyond + static_cast<int64_t>(end_ - begin_);
}

std::vector<std::byte> read_growing(BufferedBytes& bytes, int64_t count) {
  constexpr int64_t kFirst = 1 << 20;
  std::vector<std::byte> all;
  const int64_t left = bytes.left();
  int64_t have = 0;
  while (have < count) {
    const int64_t known = left >= 0 ? left : std::max(kFirst, 2 * have);
    const int64_t target = std::min(count, known);
    if (target <= have) break;
    all.resize(static_cast<size_t>(target));
    const size_t got = bytes.read(std::span(all).subspan(static_cast<size_t>(have)));
    have += static_cast<int64_t>(got);
    if (have < target) break;
  }
  all.resize(static_cast<size_t>(have));
  return all;
}

FileWriter::FileWriter(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "wbe")) {
  if (file_) return;
  const int error = errno;
  raise(code_of_errno(error), "[Write] cannot create '{}': {}", path, errno_text(error));
}

std::FILE* FileWriter::open_file() const {
  if (!file_) raise(Code::FailedPrecondition, "[Write] '{}' is closed", path_);
  return file_.get();
}

void FileWriter::write(std::string_view bytes) {
  std::FILE* file = open_file();
  if (bytes.empty()) return;  // whose pointer may be null
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) fail();
}

void FileWriter::flush() {
  if (std::fflush(open_file()) != 0) fail();
}

void FileWriter::close() {
  if (file_ && std::fclose(file_.release()) != 0) fail();
}

void FileWriter::fail() const {
  const int error = errno;
  raise(code_of_errno(error), "[Write] cannot write '{}': {}", path_, errno_text(error));
}

uint32_t extend_crc32c(uint32_t crc, std::string_view bytes) {
  constexpr size_t kMaxBytes = 1 << 30;  // crc32_iscsi() takes an int
  crc = ~crc;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMaxBytes);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes.remove_prefix(part.size());
  }
  return ~crc;
}

uint32_t crc32c(std::string_view bytes) { return extend_crc32c(0, bytes); }

uint32_t mask_crc32c(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8; }

}  // namespace cohort::data::internal
