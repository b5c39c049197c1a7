#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// What this process waits for and what its time goes to. `cohort run` and `cohort status` show it.
// The process writes it to shared memory, through the file that the variable COHORT_ACTIVITY_FILE
// names. The process takes no part in the reading, so a process that is stopped can be read as
// well. Any thread may write, without locks.

enum class WaitKind : uint8_t {
  // For a value that the other tasks have not begun to send: it is their turn.
  Tensor,
  // For the other tasks to finish, which may need something from this task.
  Answer,
};

// In ActivityWait::whom in place of a task: any task may put the awaited value into the queue or
// the accumulator.
inline constexpr char kAnyTask[] = "anybody";

struct ActivityWait {
  WaitKind kind = WaitKind::Tensor;
  std::string what = {};               // "[AllReduce] call 7, all_reduce(Sum) of float32 (3,)"
  std::vector<std::string> whom = {};  // tasks by full name, or addresses
  double seconds = 0;                  // so far
};

// How far the training of a process is.
struct ProgressNote {
  std::string text = {};  // "epoch 2/5 ..."; empty: the process does not train
  bool quiet = false;     // the program wants no progress in its output
  bool printed = false;   // the text is also a line of the program's output
  friend bool operator==(const ProgressNote&, const ProgressNote&) = default;
};

struct Activity {
  pid_t process = 0;
  std::vector<ActivityWait> waits = {};  // only waits that take long
  // Since the process began:
  // Of a training in lockstep, and steps of any master's graphs in which this process had a part.
  uint64_t steps = 0;
  double input_seconds = 0;  // spent in getting elements of datasets
  double wait_seconds = 0;   // spent in waiting for the other tasks of a group
  // How long the current element of a dataset takes so far; 0 between elements.
  double current_input_seconds = 0;
  std::optional<ProgressNote> progress = std::nullopt;  // empty while the note is being written
};

// The activity of this process, as it is at that time.
Activity local_activity(
    std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
// The activity of the process that writes the file, or nothing if it has written none. The reader
// does not trust the file.
std::optional<Activity> read_activity(const std::string& file);

// A wait shorter than this is not reported: 5 s, or what COHORT_STALL_SECONDS says.
std::chrono::nanoseconds stall_limit();

// Reports a long wait for as long as the note lives. Long texts are cut. When very many threads
// wait, some of the waits are not reported.
class [[nodiscard]] WaitNote {
 public:
  using Clock = std::chrono::steady_clock;
  WaitNote() = default;  // reports nothing
  WaitNote(WaitKind kind, std::string_view what, const std::vector<std::string>& whom,
           Clock::time_point since);
  ~WaitNote();
  WaitNote(WaitNote&& other) noexcept;
  WaitNote& operator=(WaitNote&& other) noexcept;

 private:
  int slot_ = -1;
};

// Reports that this process gets an element of a dataset, for as long as the note lives.
class [[nodiscard]] InputNote {
 public:
  InputNote();
  ~InputNote();
  InputNote(const InputNote&) = delete;
  InputNote& operator=(const InputNote&) = delete;
  // How long the note has lived.
  std::chrono::nanoseconds duration() const { return WaitNote::Clock::now() - began_; }

 private:
  const WaitNote::Clock::time_point began_;
};

// The time that all InputNotes have taken together.
std::chrono::nanoseconds total_input();

// Counts the time in which this process writes a checkpoint and its program waits for that, for as
// long as the note lives.
class [[nodiscard]] SavingNote {
 public:
  SavingNote() : began_(WaitNote::Clock::now()) {}
  ~SavingNote();
  SavingNote(const SavingNote&) = delete;
  SavingNote& operator=(const SavingNote&) = delete;

 private:
  const WaitNote::Clock::time_point began_;
};

// The time that all SavingNotes have taken together.
std::chrono::nanoseconds total_saving();
void note_step();
// Long texts are cut.
void note_progress(const ProgressNote& note);
// Whether another process may read the notes of this one, because COHORT_ACTIVITY_FILE is set.
bool is_watched();
void note_group_wait(std::chrono::nanoseconds duration);

}  // namespace cohort::internal
