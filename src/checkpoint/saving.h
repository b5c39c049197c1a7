#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "cohort/checkpoint.h"
#include "cohort/error.h"

// The steps that all kinds of saves have in common.
namespace cohort::internal {

// A tensor, or a part of one, that is to be in a checkpoint.
struct SaveItem {
  // The part of a tensor of that shape.
  struct Part {
    Shape full_shape;
    Extent extent;
  };
  std::string name;
  DType dtype = kFloat32;
  std::optional<Part> part = std::nullopt;

  // Its name in a file, which may have other parts of the same tensor.
  std::string key() const { return part ? name + part->extent.to_string() : name; }
};

// "prefix-step". Throws InvalidArgument, beginning with `operation`, for a prefix that ends in no
// file name.
std::string full_prefix(std::string_view operation, std::string_view prefix,
                        std::optional<int64_t> step);

// A manifest without files, with the current time.
Manifest new_manifest(std::optional<int64_t> step);
// Adds a file that was written, with the items that are in it.
void add_shard(Manifest& manifest, SavedFile file, const WrittenShard& written,
               const std::vector<SaveItem>& items);

// A note beside a checkpoint that is being written. It lists the files that the save will write,
// the files that they replace, and the device that wrote each file. If the program dies during the
// save, the next save finds these files by the note, on whichever machine they are. The note is
// locked while the program lives.
class SaveIntent {
 public:
  // Deletes files; false when some may still be there.
  using Remove = std::function<bool(const std::vector<SavedFile>& files)>;

  // Throws what NewFile throws.
  SaveIntent(std::string prefix, const std::string& id, std::vector<SavedFile> files);
  SaveIntent(const SaveIntent&) = delete;
  SaveIntent& operator=(const SaveIntent&) = delete;

  // Ends the save, whether it succeeded or not. Removes the noted files that are not part of the
  // checkpoint, which may not exist, and then the note. If a file cannot be removed now, the note
  // stays for the next save.
  void settle(const Remove& remove) noexcept;

 private:
  const std::string prefix_;
  const std::vector<SavedFile> files_;
  const std::string path_;
  NewFile note_;  // holds the lock
};

// Settles the notes in the directory whose programs have ended. Never throws: this is housekeeping.
void settle_abandoned_intents(const std::string& directory,
                              const SaveIntent::Remove& remove) noexcept;

// One writing of a checkpoint.
struct FilesToSave {
  std::string prefix;
  std::string id;  // of the files' names
  std::vector<SavedFile> files;
  SaveIntent::Remove remove;
  std::function<Manifest()> write;  // writes the files
};
// Writes the files and then the manifest, which makes the checkpoint exist. Removes the files of an
// older checkpoint of the same prefix. If a step fails, no new file stays. If the program dies, the
// next save to the directory removes the files that no checkpoint needs.
void save_files(const FilesToSave& save);

// Deletes the manifest, and then lets its files be removed. Those that cannot be removed now are
// removed by a later save to the directory.
void remove_saved(const std::string& prefix, const SaveIntent::Remove& remove);
// Deletes those files that are on this machine. Returns the others.
std::vector<SavedFile> remove_local_files(const std::string& directory,
                                          const std::vector<SavedFile>& files);

// Writes a checkpoint with one file to this machine: values[i] is what items[i] describes.
void write_checkpoint(const std::string& prefix, std::optional<int64_t> step,
                      const std::vector<SaveItem>& items, const std::vector<Tensor>& values,
                      BytesWritten* progress);

// Runs saves one after the other: at once, or on a thread of its own. At most one save is under
// way, so that values that wait to be written do not pile up. The destructor waits, and logs an
// error that no call has thrown. Thread-safe.
class SaveQueue {
 public:
  explicit SaveQueue(bool asynchronous) : asynchronous_(asynchronous) {}
  ~SaveQueue();
  SaveQueue(const SaveQueue&) = delete;
  SaveQueue& operator=(const SaveQueue&) = delete;

  // Waits for the save before this one. If that one failed, throws its error and does not run this
  // one.
  using Save = std::function<void(BytesWritten& progress)>;
  void run(const std::string& prefix, int64_t bytes_total, Save save);
  // Throws the error of the save before.
  void wait();
  SaveProgress progress() const;
  bool is_asynchronous() const { return asynchronous_; }

 private:
  void finish(std::unique_lock<Turn>& turn);
  void perform(const Save& save);
  void begin(const std::string& prefix, int64_t bytes_total);

  const bool asynchronous_;
  Turn turn_;      // of the thread that starts or awaits a save
  Thread thread_;  // guarded by turn_
  BytesWritten bytes_written_{0};
  mutable Mutex mutex_;
  SaveProgress progress_;  // guarded by mutex_, as is what follows
  Status status_;          // of the save before
};

}  // namespace cohort::internal
