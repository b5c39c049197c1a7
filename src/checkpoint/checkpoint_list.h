#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "cohort/checkpoint.h"

namespace cohort::internal {

struct RetentionOptions {
  int max_to_keep = 5;
  double keep_every_n_hours = 10'000;
  // Tests say what time it is.
  std::function<std::chrono::system_clock::time_point()> now = std::chrono::system_clock::now;
};

// The checkpoints that a Saver or manager saved and may delete again, oldest first. Thread-safe.
class CheckpointList {
 public:
  // Throws InvalidArgument for options that are negative. `operation` begins messages.
  CheckpointList(std::string_view operation, const RetentionOptions& options);

  struct Change {
    CheckpointState state;             // the list, for the state file
    std::vector<std::string> dropped;  // to be deleted
  };
  // Appends the checkpoint, or moves it to the end when the list has it already. Then removes the
  // oldest checkpoints beyond the limits.
  Change add(const std::string& prefix);
  // Adds a checkpoint, which exists. Replaces the state file of that name in its directory, unless
  // the name is empty, and lets `remove` delete the checkpoints beyond the limits. A checkpoint
  // that cannot be deleted is a warning.
  void keep(const std::string& prefix, const std::string& state_file,
            const std::function<void(const std::string& dropped)>& remove);

  std::vector<std::string> prefixes() const;
  bool empty() const;
  // Replaces the list by those of these checkpoints that exist.
  void recover(const std::vector<std::string>& prefixes);
  // The same from a state file, which has the times of the checkpoints.
  void recover(const CheckpointState& state);

 private:
  using Time = std::chrono::system_clock::time_point;
  struct Entry {
    std::string prefix;
    Time saved_at;
  };
  std::vector<std::string> drop_oldest();  // mutex_ is held

  const std::string operation_;
  const RetentionOptions options_;
  const std::chrono::system_clock::duration keep_each_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
  Time next_kept_;              // guarded by mutex_: one that is newer than this is kept for good
};

// The file that lists a directory's checkpoints. Paths inside the directory are stored relative to
// it, so that the directory may move. Reading: see get_checkpoint_state().
void write_state_file(const std::string& directory, const std::string& name,
                      const CheckpointState& state);
// The content of the state file. Throws DataLoss when the text is not a state file, and
// InvalidArgument when it does not name the latest checkpoint.
CheckpointState parse_state(std::string_view text, const std::string& directory,
                            const std::string& path);

}  // namespace cohort::internal
