#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// What this process waits for and what its time goes to, for whoever watches it from outside:
// `cohort run`, `cohort status`. It lies in memory that is shared through the file that the
// variable COHORT_ACTIVITY_FILE names, where there is one. Nobody has to be asked, so it can be
// read of a process that is stopped, too. Any thread may write; no locks.

enum class WaitKind : uint8_t {
  // For something that the others have not begun to give: it is their turn.
  Tensor,
  // For the others to be done, which may need something of this task.
  Answer,
};

struct ActivityWait {
  WaitKind kind = WaitKind::Tensor;
  std::string what = {};               // "[AllReduce] call 7, all_reduce(Sum) of float32 (3,)"
  std::vector<std::string> whom = {};  // tasks by full name, or addresses
  double seconds = 0;                  // so far
};

// How far the training of a process is.
struct ProgressNote {
  std::string text = {};  // "epoch 2/5 ..."; empty: it does not train
  bool quiet = false;     // the program wants it left out of its output
  friend bool operator==(const ProgressNote&, const ProgressNote&) = default;
};

struct Activity {
  pid_t process = 0;
  std::vector<ActivityWait> waits = {};  // those that take long
  // Since the process began:
  uint64_t steps = 0;
  double input_seconds = 0;  // spent in getting elements of datasets
  double wait_seconds = 0;   // spent in meetings with other tasks
  // How long the element that it is getting takes so far; 0 when it is getting none.
  double current_input_seconds = 0;
  std::optional<ProgressNote> progress = std::nullopt;  // nothing while it is being written
};

// Of this process.
Activity own_activity();
// Of another process, which was given that file. Nothing in the file is trusted. Nothing when it
// has written none.
std::optional<Activity> read_activity(const std::string& file);

// A wait shorter than this is nobody's concern: 5 s, or what COHORT_STALL_SECONDS says.
std::chrono::nanoseconds stall_patience();

// A wait that takes long, for as long as the note lives. What does not fit is cut; when very many
// threads wait some are not noted.
class [[nodiscard]] WaitNote {
 public:
  using Clock = std::chrono::steady_clock;
  WaitNote() = default;  // of nothing
  WaitNote(WaitKind kind, std::string_view what, const std::vector<std::string>& whom,
           Clock::time_point since);
  ~WaitNote();
  WaitNote(WaitNote&& other) noexcept;
  WaitNote& operator=(WaitNote&& other) noexcept;

 private:
  int slot_ = -1;
};

// This process gets an element of a dataset, for as long as it lives.
class [[nodiscard]] InputNote {
 public:
  InputNote();
  ~InputNote();
  InputNote(const InputNote&) = delete;
  InputNote& operator=(const InputNote&) = delete;
  // So far.
  std::chrono::nanoseconds duration() const { return WaitNote::Clock::now() - began_; }

 private:
  const WaitNote::Clock::time_point began_;
};

// What all InputNotes so far have taken together.
std::chrono::nanoseconds total_input();
void note_step();
// What does not fit is cut.
void note_progress(const ProgressNote& note);
// Whether another process may read what this one notes: it was given the file.
bool is_watched();
void note_meeting(std::chrono::nanoseconds duration);

}  // namespace cohort::internal
