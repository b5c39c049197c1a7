#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

// Files that are there whole or not at all.
namespace cohort::internal {

// A file that is being written under a temporary name beside `path`. It gets its name when all its
// bytes are on the disk; a file that is never committed is deleted. It is locked meanwhile, so that
// other processes can tell it from what a dead process left.
class NewFile {
 public:
  // Makes missing directories. Errors name the file and have the code of code_of_errno():
  // ResourceExhausted for a full disk, FailedPrecondition where a directory is a file.
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view bytes);
  // Returns when the content and the name are on the disk.
  void commit();

 private:
  const std::string path_;
  const std::string temporary_;
  FileDescriptor file_;
  bool committed_ = false;
};

// A file that is being read.
class ReadFile {
 public:
  // Throws what NewFile throws, and InvalidArgument when `path` is not a file.
  explicit ReadFile(std::string path);

  uint64_t size() const { return size_; }  // when it was opened
  const std::string& path() const { return path_; }
  // Fills `into` from position `begin` on. Throws DataLoss when the file has fewer bytes.
  void read(uint64_t begin, std::span<std::byte> into) const;
  // All bytes. Throws DataLoss when the file has more than `most`.
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

// The first two return whether the file existed, and throw what prevents the call.
bool remove_file(const std::string& path);
bool rename_file(const std::string& from, const std::string& to);
bool file_exists(const std::string& path);

// "directory/name" in its two parts; "." for a name without directory.
std::string directory_of(std::string_view path);
std::string file_name_of(std::string_view path);
// The path without links, "." and "..": one file has one such path. Its last part need not exist.
std::string resolved_path(std::string_view path);
// `path` in `directory`, unless it is absolute.
std::string in_directory(const std::string& directory, const std::string& path);

// 16 random hexadecimal digits.
std::string random_id();

// The names of the files of a checkpoint.

std::string manifest_path(std::string_view prefix);
// The name, without directory, of file `index` of `count` of one writing of the checkpoint. Each
// writing has an id of its own, so that a second writing of the prefix leaves the old files alone.
std::string data_file_name(std::string_view prefix, const std::string& id, size_t index,
                           size_t count);
// How the name of a SaveIntent ends.
constexpr std::string_view kIntentEnding = ".saving";
// The first says whether data_file_name gives such names, the second whether the name may be that
// of any file of a checkpoint.
bool is_data_file_name(std::string_view name);
bool is_checkpoint_file_name(std::string_view name);

}  // namespace cohort::internal
