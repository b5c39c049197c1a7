#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shard.h"

namespace cohort::internal {

// Where the bytes of slices come from. Thread-safe.
class SliceSource {
 public:
  virtual ~SliceSource() = default;
  // Throws unless the file is as the manifest says and has the slice: to be asked before memory is
  // taken for it.
  virtual void check(const SavedFile& file, const SavedSlice& slice) = 0;
  // Fills `into`, which has the slice's size. Checksums are compared by who asks.
  virtual void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) = 0;
};

// Files in a folder of this machine, opened when first asked for.
class LocalSource : public SliceSource {
 public:
  explicit LocalSource(std::string folder) : folder_(std::move(folder)) {}
  void check(const SavedFile& file, const SavedSlice& slice) override;
  void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) override;
  const std::string& folder() const { return folder_; }

 private:
  std::shared_ptr<const ShardFile> opened(const SavedFile& file);

  const std::string folder_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const ShardFile>> files_;  // guarded by mutex_
};

// A checkpoint: what its manifest says, and its tensors.
class CheckpointFiles {
 public:
  // Reads the manifest. NotFound when there is none, which names the checkpoints of the folder.
  explicit CheckpointFiles(std::string_view prefix);

  const std::string& prefix() const { return prefix_; }
  const Manifest& manifest() const { return manifest_; }
  std::string path_of(const SavedFile& file) const;
  // Throws NotFound with the names that look like it.
  const SavedEntry& entry(std::string_view name) const;

  // The tensor, or part of it, from files of this machine or from `source`. Throws InvalidArgument
  // for a part that is not in it, DataLoss where checksums differ.
  Tensor read(std::string_view name) const;
  Tensor read(std::string_view name, const Extent& part) const;
  Tensor read(std::string_view name, const Extent& part, SliceSource& source) const;
  // Reads the files that are here, throwing what is wrong with them. A missing one is NotFound
  // unless a task of another process wrote it.
  void verify() const;
  // That they have the sizes that the manifest says.
  void verify_sizes() const;

 private:
  template <typename Check>
  void for_each_local_file(const Check& check) const;

  const std::string prefix_;
  const Manifest manifest_;
  const std::unique_ptr<LocalSource> local_;
};

}  // namespace cohort::internal
