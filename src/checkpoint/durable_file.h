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

// A file that is being written under a temporary name beside `path`. It gets its name when
// everything is on the disk; one that never does is deleted. Locked meanwhile, so that others can
// tell it from what a dead process left behind.
class NewFile {
 public:
  // Makes missing folders. Errors name the file and have the code of code_of_errno():
  // ResourceExhausted for a full disk, FailedPrecondition where a folder is a file.
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
  // Throws as NewFile does, InvalidArgument for what is not a file.
  explicit ReadFile(std::string path);

  uint64_t size() const { return size_; }  // when it was opened
  const std::string& path() const { return path_; }
  // Fills `into` from position `begin` on; fewer bytes are DataLoss.
  void read(uint64_t begin, std::span<std::byte> into) const;
  // At most `most` bytes, else DataLoss.
  std::string read_all(uint64_t most) const;

 private:
  std::string path_;
  FileDescriptor file_;
  uint64_t size_ = 0;
};

// Deletes what dead processes left of writing files whose names `are_ours`. Younger files stay: a
// process that lives may not have locked them yet. Never throws: this is housekeeping.
void remove_abandoned_files(const std::string& folder,
                            const std::function<bool(std::string_view name)>& are_ours,
                            std::chrono::minutes min_age = std::chrono::minutes(2)) noexcept;

// Whether there was one. Throws what prevents it.
bool remove_file(const std::string& path);
bool rename_file(const std::string& from, const std::string& to);
bool file_exists(const std::string& path);

// "folder/name" in its two parts; "." for a name without folder.
std::string folder_of(std::string_view path);
std::string file_name_of(std::string_view path);
// The path without links, "." and "..": one file has one such path. Its last part need not exist.
std::string resolved_path(std::string_view path);
// `path` in `folder`, unless it is absolute.
std::string in_folder(const std::string& folder, const std::string& path);

// 16 random hexadecimal digits.
std::string random_id();

}  // namespace cohort::internal
