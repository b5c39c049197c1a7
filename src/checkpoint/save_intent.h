#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"

namespace cohort::internal {

// A note beside a checkpoint that is being written: which files will be there, and whose. What a
// program leaves that dies before its manifest is there can so be found, on whichever machine it
// is. Locked while the program lives.
class SaveIntent {
 public:
  // Deletes files; false when some may still be there.
  using Remove = std::function<bool(const std::vector<SavedFile>& files)>;

  // Throws as NewFile does.
  SaveIntent(std::string prefix, const std::string& id, std::vector<SavedFile> files);
  SaveIntent(const SaveIntent&) = delete;
  SaveIntent& operator=(const SaveIntent&) = delete;

  // Takes the note away: the checkpoint exists.
  void fulfil();
  // The checkpoint was not finished: lets its files be removed, unless it exists all the same. The
  // note stays, for the next program, when that is not possible now.
  void give_up(const Remove& remove) noexcept;

 private:
  const std::string prefix_;
  const std::vector<SavedFile> files_;
  const std::string path_;
  NewFile note_;  // holds the lock
};

// Looks in the folder for notes of programs that are gone. Files of checkpoints that do not exist
// are given to `remove`; the note goes when they are gone, else it stays for the next time. Never
// throws: this is housekeeping.
void settle_abandoned_intents(const std::string& folder, const SaveIntent::Remove& remove) noexcept;

}  // namespace cohort::internal
