#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

// Files that exist whole or not at all.
namespace cohort::internal {

// A file that is being written under a temporary name beside `path`. It gets its name once all its
// bytes are on the disk; if it is never committed, it is deleted. It is locked until then, so that
// other processes can tell it from a file that a dead process left.
class NewFile {
 public:
  // Creates missing directories. Errors name the file and have the code of code_of_errno():
  // ResourceExhausted for a full disk, FailedPrecondition if a directory of the path is a file.
  explicit NewFile(std::string path);
  ~NewFile();

  void write(std::string_view bytes);
  // Returns once the content and the name are on the disk.
  void commit();

 private:
  const std::string path_;
  const std::string temporary_;
  FileDescriptor file_;
  bool committed_ = false;
};

// An open file for reading.
class ReadFile {
 public:
  // Throws the errors of NewFile, and InvalidArgument if `path` is not a file.
  explicit ReadFile(std::string path);

  uint64_t size() const { return size_; }  // at the time of opening
  const std::string& path() const { return path_; }
  // Fills `into` from position `begin` on. Throws DataLoss if the file has fewer bytes.
  void read(uint64_t begin, std::span<std::byte> into) const;
  // All bytes. Throws DataLoss if the file has more than `most`.
  std::string read_all(uint64_t most) const;

 private:
  std::string path_;
  FileDescriptor file_;
  uint64_t size_ = 0;
};

// Deletes the unfinished files of dead processes whose names `are_ours`. Younger files stay: a
// living process may not have locked them yet. Never throws: this is housekeeping.
void remove_abandoned_files(const std::string& directory,
                            const std::function<bool(std::string_view name)>& are_ours,
                            std::chrono::minutes min_age = std::chrono::minutes(2)) noexcept;

// The first two return whether the file existed, and throw if the call fails.
bool remove_file(const std::string& path);
bool rename_file(const std::string& from, const std::string& to);
bool file_exists(const std::string& path);

// The two parts of "directory/name"; the first is "." if the path has no directory.
std::string directory_of(std::string_view path);
std::string file_name_of(std::string_view path);
// The path without links, "." and "..", which is the same for all paths of one file. Its last part
// need not exist.
std::string resolved_path(std::string_view path);
// `path` in `directory`, unless it is absolute.
std::string in_directory(const std::string& directory, const std::string& path);

// 16 random hexadecimal digits.
std::string random_id();

// The names of the files of a checkpoint.

std::string manifest_path(std::string_view prefix);
// The name, without directory, of file `index` of `count` of one save. Each save has its own id, so
// that a second save to the prefix leaves the old files alone.
std::string data_file_name(std::string_view prefix, const std::string& id, size_t index,
                           size_t count);
// The end of the name of a SaveIntent.
constexpr std::string_view kIntentEnding = ".saving";
// The first returns whether data_file_name() makes such names, the second whether the name may
// belong to any file of a checkpoint.
bool is_data_file_name(std::string_view name);
bool is_checkpoint_file_name(std::string_view name);

}  // namespace cohort::internal
