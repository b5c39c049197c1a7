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

// Where the bytes of slices come from. Thread-safe.
class SliceSource {
 public:
  virtual ~SliceSource() = default;
  // Throws unless the file is as the manifest says and has the slice. Callers ask this before they
  // allocate memory for the slice.
  virtual void check(const SavedFile& file, const SavedSlice& slice) = 0;
  // Fills `into`, which has the size of the slice. The caller compares the checksum.
  virtual void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) = 0;
};

// Files in a directory of this machine, opened when first asked for.
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

// A checkpoint: what its manifest says, and its tensors.
class CheckpointFiles {
 public:
  // Reads the manifest. Throws NotFound when it does not exist, naming the checkpoints of the
  // directory.
  explicit CheckpointFiles(std::string_view prefix);

  const std::string& prefix() const { return prefix_; }
  const Manifest& manifest() const { return manifest_; }
  std::string path_of(const SavedFile& file) const;
  // Throws NotFound with similar names.
  const SavedEntry& entry(std::string_view name) const;

  // The tensor, or a part of it, from files of this machine or from `source`. Throws
  // InvalidArgument for a part that is not inside the tensor, and DataLoss where checksums differ.
  Tensor read(std::string_view name) const;
  Tensor read(std::string_view name, const Extent& part) const;
  Tensor read(std::string_view name, const Extent& part, SliceSource& source) const;
  // Reads the files that are on this machine and throws the error of a damaged one. Throws NotFound
  // for a missing file, unless a task of another process wrote it.
  void verify() const;
  // Checks that the files have the sizes that the manifest says.
  void verify_sizes() const;

 private:
  // Whether the file is on this machine, or should be.
  bool is_here(const SavedFile& file) const;

  const std::string prefix_;
  const Manifest manifest_;
  const std::unique_ptr<LocalSource> local_;
};

}  // namespace cohort::internal
