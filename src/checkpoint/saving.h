#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "cohort/error.h"

// The steps that are common to all kinds of saves.
namespace cohort::internal {

// A tensor, or a part of a tensor, to save.
struct SaveItem {
  // A part of the tensor of that shape.
  struct Part {
    Shape full_shape;
    Extent extent;
  };
  std::string name;
  DType dtype = kFloat32;
  std::optional<Part> part = std::nullopt;

  // The name in a file, which may have other parts of the same tensor.
  std::string key() const { return part ? name + part->extent.to_string() : name; }
};

// Returns "prefix-step". Throws InvalidArgument, beginning with `operation`, if the prefix does not
// end in a file name.
std::string full_prefix(std::string_view operation, std::string_view prefix,
                        std::optional<int64_t> step);

// A manifest without files, with the current time.
Manifest new_manifest(std::optional<int64_t> step);
// Adds a written file with its items.
void add_shard(Manifest& manifest, SavedFile file, const WrittenShard& written,
               const std::vector<SaveItem>& items);

// A note beside a checkpoint that is being written. It lists the files that the save will write,
// the files that they replace, and the device that wrote each file. If the program dies during the
// save, the next save finds these files by the note, on whichever machine they are. The note is
// locked while the program lives.
class SaveIntent {
 public:
  // Deletes files. Returns false if some may still exist.
  using Remove = std::function<bool(const std::vector<SavedFile>& files)>;

  // Throws the errors of NewFile.
  SaveIntent(std::string prefix, const std::string& id, std::vector<SavedFile> files);

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

// Settles the notes in the directory whose programs have ended. Logs errors and does not throw.
void settle_abandoned_intents(const std::string& directory,
                              const SaveIntent::Remove& remove) noexcept;

// The files of one save.
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

// Deletes the manifest, then removes its files. A later save to the directory removes the files
// that cannot be removed now.
void remove_saved(const std::string& prefix, const SaveIntent::Remove& remove);
// Deletes those files that are on this machine. Returns the others.
std::vector<SavedFile> remove_local_files(const std::string& directory,
                                          const std::vector<SavedFile>& files);

// Writes a checkpoint with one file to this machine: items[i] describes values[i].
void write_checkpoint(const std::string& prefix, std::optional<int64_t> step,
                      const std::vector<SaveItem>& items, const std::vector<Tensor>& values,
                      BytesWritten* progress);

}  // namespace cohort::internal
