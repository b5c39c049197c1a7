#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"

namespace cohort::internal {

// A note beside a checkpoint that is being written: which files will be there, which ones they
// replace, and whose they are. What a program leaves that dies meanwhile can so be found, on
// whichever machine it is. Locked while the program lives.
class SaveIntent {
 public:
  // Deletes files; false when some may still be there.
  using Remove = std::function<bool(const std::vector<SavedFile>& files)>;

  // Throws as NewFile does.
  SaveIntent(std::string prefix, const std::string& id, std::vector<SavedFile> files);
  SaveIntent(const SaveIntent&) = delete;
  SaveIntent& operator=(const SaveIntent&) = delete;

  // The save has ended, well or not: lets those of the files be removed that the checkpoint, if it
  // exists, does not consist of, and takes the note away. The note stays, for the next save, when
  // removing is not possible now.
  void settle(const Remove& remove) noexcept;

 private:
  const std::string prefix_;
  const std::vector<SavedFile> files_;
  const std::string path_;
  NewFile note_;  // holds the lock
};

// Looks in the folder for notes of programs that are gone, and settles them. Never throws: this is
// housekeeping.
void settle_abandoned_intents(const std::string& folder, const SaveIntent::Remove& remove) noexcept;

}  // namespace cohort::internal
