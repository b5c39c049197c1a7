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
  std::optional<int> max_to_keep = 5;
  std::optional<std::chrono::milliseconds> keep_checkpoint_every = std::chrono::hours(10'000);
  // Tests set the time.
  std::function<std::chrono::system_clock::time_point()> now = std::chrono::system_clock::now;
};

// The checkpoints that a Saver or manager saved and may delete again, oldest first. Thread-safe.
class CheckpointList {
 public:
  // Throws InvalidArgument if the period is not positive or max_to_keep is negative. `operation`
  // begins messages.
  CheckpointList(std::string_view operation, const RetentionOptions& options);

  struct Change {
    CheckpointState state;             // the list, for the state file
    std::vector<std::string> dropped;  // to be deleted
  };
  // Appends the checkpoint, or moves it to the end if the list has it already. Then removes the
  // oldest checkpoints beyond the limits.
  Change add(const std::string& prefix);
  // Adds an existing checkpoint. Replaces the state file of that name in its directory, unless the
  // name is empty, and lets `remove` delete the checkpoints beyond the limits. If a checkpoint
  // cannot be deleted, logs a warning.
  void keep(const std::string& prefix, const std::string& state_file,
            const std::function<void(const std::string& dropped)>& remove);

  std::vector<std::string> prefixes() const;
  // Replaces the list by these checkpoints, except those that do not exist.
  void recover(const std::vector<std::string>& prefixes) {
    recover(CheckpointState{.latest = {}, .all = prefixes, .saved_at = {}});
  }
  // Replaces the list by that of a state file, which has the times of the checkpoints.
  void recover(const CheckpointState& state);

 private:
  using Time = std::chrono::system_clock::time_point;
  struct Entry {
    std::string prefix;
    Time saved_at;
  };
  std::vector<std::string> drop_oldest();  // mutex_ is held
  Time after_period(Time start) const;

  const std::string operation_;
  const RetentionOptions options_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
  Time next_kept_;              // guarded by mutex_: a newer checkpoint is kept for good
};

// Writes the file that lists the checkpoints of a directory. Paths inside the directory are
// relative, so that the directory may move. get_checkpoint_state() reads the file.
void write_state_file(const std::string& directory, const std::string& name,
                      const CheckpointState& state);
// Parses the content of the state file. Throws DataLoss if the text is not a state file, and
// InvalidArgument if it does not name the latest checkpoint.
CheckpointState parse_state(std::string_view text, const std::string& directory,
                            const std::string& path);

}  // namespace cohort::internal
