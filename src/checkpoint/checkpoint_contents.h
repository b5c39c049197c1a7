#pragma once

#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"

namespace cohort::internal {

// A source of the bytes of slices. Thread-safe.
class SliceSource {
 public:
  virtual ~SliceSource() = default;
  // Throws unless the file agrees with the manifest and has the slice. Callers check before they
  // allocate memory for the slice.
  virtual void check(const SavedFile& file, const SavedSlice& slice) = 0;
  // Fills `into`, which has the size of the slice. The caller compares the checksum.
  virtual void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) = 0;
};

// The files in a directory of this machine, opened at the first use.
class LocalSource : public SliceSource {
 public:
  explicit LocalSource(std::string directory) : directory_(std::move(directory)) {}
  void check(const SavedFile& file, const SavedSlice& slice) override;
  void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) override;
  const std::string& directory() const { return directory_; }

 private:
  std::shared_ptr<const ShardFile> opened(const SavedFile& file);

  const std::string directory_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const ShardFile>> files_;  // guarded by mutex_
};

// The names of a directory's checkpoints, in any order. Sets `failed` if it cannot be listed.
std::vector<std::string> checkpoints_in(const std::string& directory, std::error_code& failed);

// A checkpoint: the content of its manifest, and its tensors.
class CheckpointFiles {
 public:
  // Reads the manifest. If it does not exist, throws NotFound with the checkpoints of the
  // directory.
  explicit CheckpointFiles(std::string_view prefix);

  const std::string& prefix() const { return prefix_; }
  const Manifest& manifest() const { return manifest_; }
  std::string path_of(const SavedFile& file) const;
  // Throws NotFound with similar names.
  const SavedEntry& entry(std::string_view name) const;

  // The tensor, or a part of it, from files of this machine or from `source`. Throws
  // InvalidArgument if the part is not inside the tensor, and DataLoss if a checksum differs.
  Tensor read(std::string_view name) const { return read(name, whole_of(entry(name).shape)); }
  Tensor read(std::string_view name, const Extent& part) const { return read(name, part, *local_); }
  Tensor read(std::string_view name, const Extent& part, SliceSource& source) const;
  // Reads the files that are on this machine and throws the error of a damaged file. Throws
  // NotFound if a file is missing, unless a task of another process wrote it.
  void verify() const;
  // Checks that the files have the sizes of the manifest.
  void verify_sizes() const;

 private:
  // Whether the file is on this machine, or should be.
  bool is_here(const SavedFile& file) const;

  const std::string prefix_;
  const Manifest manifest_;
  const std::unique_ptr<LocalSource> local_;
};

}  // namespace cohort::internal
