#include "checkpoint/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "base/log.h"
#include "base/raise.h"
#include "base/random_number.h"

namespace cohort::internal {
namespace {

constexpr std::string_view kTemporary = ".tmp-";

[[noreturn]] void raise_errno(std::string_view doing, const std::string& path) {
  const int error = errno;
  raise(code_of_errno(error), "[Checkpoint] cannot {} '{}': {}", doing, path, errno_text(error));
}

// Names are on the disk when their directory is.
void sync_directory(const std::string& directory) {
  const FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) raise_errno("open the directory", directory);
  // Some file systems have nothing to bring to the disk, and say so.
  if (::fsync(opened.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    raise_errno("flush", directory);
  }
}

// Makes the directory with those above it; new names are brought to the disk from the top down.
void make_directories(const std::string& directory) {
  if (std::filesystem::is_directory(directory)) return;
  const std::string above = directory_of(directory);
  if (above != directory) make_directories(above);
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) raise_errno("make", directory);
  sync_directory(above);
}

FileDescriptor create(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) raise_errno("make", path);
  (void)::flock(file.get(), LOCK_EX | LOCK_NB);  // where locks exist; age tells where they do not
  return file;
}

using NameFilter = std::function<bool(std::string_view)>;

bool is_abandoned(const std::filesystem::directory_entry& entry, const NameFilter& are_ours,
                  std::chrono::minutes min_age) {
  const std::string name = entry.path().filename().string();
  const size_t end = name.rfind(kTemporary);
  if (end == std::string::npos || !are_ours(std::string_view(name).substr(0, end))) return false;
  const auto age = std::filesystem::file_time_type::clock::now() - entry.last_write_time();
  if (age < min_age) return false;
  const FileDescriptor file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

NewFile::NewFile(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}{}{}", path_, kTemporary, random_id())) {
  make_directories(directory_of(path_));
  file_ = create(temporary_);
}

NewFile::~NewFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      raise_errno("write", temporary_);
    }
  }
}

void NewFile::commit() {
  if (::fsync(file_.get()) != 0) raise_errno("flush", temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) raise_errno("rename to", path_);
  committed_ = true;
  sync_directory(directory_of(path_));
}

ReadFile::ReadFile(std::string path)
    // A pipe in the file's place must not keep us waiting for a writer.
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_) raise_errno("open", path_);
  struct stat found;
  if (::fstat(file_.get(), &found) != 0) raise_errno("read the status of", path_);
  if (!S_ISREG(found.st_mode)) {
    raise(Code::InvalidArgument, "[Checkpoint] '{}' is not a file", path_);
  }
  size_ = static_cast<uint64_t>(found.st_size);
}

void ReadFile::read(uint64_t begin, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(begin));
    if (count > 0) {
      begin += static_cast<uint64_t>(count);
      into = into.subspan(static_cast<size_t>(count));
    } else if (count == 0) {
      raise(Code::DataLoss, "[Checkpoint] '{}' ends at byte {}, {} bytes too early", path_, begin,
            into.size());
    } else if (errno != EINTR) {
      raise_errno("read", path_);
    }
  }
}

std::string ReadFile::read_all(uint64_t most) const {
  if (size_ > most) {
    raise(Code::DataLoss, "[Checkpoint] '{}' has {} bytes; expected at most {}", path_, size_,
          most);
  }
  std::string bytes(size_, '\0');
  read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

void remove_abandoned_files(const std::string& directory, const NameFilter& are_ours,
                            std::chrono::minutes min_age) noexcept {
  const Status status = capture_status([&] {
    if (!std::filesystem::is_directory(directory)) return;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (is_abandoned(entry, are_ours, min_age)) remove_file(entry.path().string());
    }
  });
  if (!status.ok()) {
    log_info("[Checkpoint] cannot remove abandoned files from '{}': {}", directory,
             status.to_string());
  }
}

bool remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  raise_errno("delete", path);
}

bool rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  raise_errno("rename", from);
}

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::string directory_of(std::string_view path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

std::string file_name_of(std::string_view path) {
  return std::filesystem::path(path).filename().string();
}

std::string resolved_path(std::string_view path) {
  const std::filesystem::path directory = std::filesystem::absolute(directory_of(path));
  std::error_code failed;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(directory, failed);
  return ((failed ? directory.lexically_normal() : resolved) / file_name_of(path)).string();
}

std::string in_directory(const std::string& directory, const std::string& path) {
  return directory == "." ? path : (std::filesystem::path(directory) / path).string();
}

std::string random_id() { return fmt::format("{:016x}", random_number()); }

std::string manifest_path(std::string_view prefix) {
  return std::string(prefix) + ".manifest.json";
}

std::string data_file_name(std::string_view prefix, const std::string& id, size_t index,
                           size_t count) {
  return fmt::format("{}.{}-{:05}-of-{:05}.safetensors", file_name_of(prefix), id, index, count);
}

bool is_data_file_name(std::string_view name) {
  // ".xxxxxxxxxxxxxxxx-00000-of-00000.safetensors", where x is any digit of random_id().
  static const std::string pattern = data_file_name("", std::string(16, 'x'), 0, 0);
  if (name.size() <= pattern.size()) return false;
  const std::string_view ending = name.substr(name.size() - pattern.size());
  return std::ranges::equal(ending, pattern, [](unsigned char c, char expected) {
    if (expected == 'x') return std::isxdigit(c) != 0;
    return expected == '0' ? std::isdigit(c) != 0 : c == static_cast<unsigned char>(expected);
  });
}

bool is_checkpoint_file_name(std::string_view name) {
  return is_data_file_name(name) || name.ends_with(manifest_path("")) ||
         name.ends_with(kIntentEnding);
}

}  // namespace cohort::internal
