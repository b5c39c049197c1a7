#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cohort::cli {

// The crash report of a task (src/launch/preload). Empty if the task could not write one.
struct CrashRecord {
  int signal = 0;
  int code = 0;  // as siginfo_t has it
  uint64_t address = 0;
  bool stack_overflow = false;
  bool terminated = false;               // std::terminate() without an exception
  std::string exception = {};            // its type
  std::string what = {};                 // its text
  std::vector<std::string> frames = {};  // innermost first: "train_step at train.cc:17"

  bool empty() const { return signal == 0 && exception.empty() && !terminated && frames.empty(); }
};

// Reads a crash report; frames get the names and lines that addr2line finds. The reader does not
// trust the file. The record is empty if the file does not exist.
CrashRecord read_crash_record(const std::string& path);

// A file that was mapped into a process, from its lowest to its highest address there.
struct MappedFile {
  std::string path = {};
  uint64_t begin = 0;
  uint64_t end = 0;
};
// Adds a line of /proc/<id>/maps. The lines of one file follow each other.
void add_mapping(const std::string& line, std::vector<MappedFile>& files);

// "function at file.cc:12" for each address, by addr2line, or else "library.so+0x1234". Frames of
// the crash report itself and below main are left out. `of` says whether the innermost frame is a
// call or an instruction that a signal interrupted.
enum class StackOf { Call, Signal };
std::vector<std::string> names_of(const std::vector<uint64_t>& addresses,
                                  const std::vector<MappedFile>& files, StackOf of);

// How a task ended, with everything that its machine knows about the end.
struct Ending {
  int status = 0;                // as waitpid gives it
  std::string not_started = {};  // why the program could not start; then the rest is empty
  // Why its machine is lost; then only the seconds and the last lines are known, from the launcher.
  std::string lost_machine = {};
  double seconds = 0;
  uint64_t peak_bytes = 0;
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;
  bool killed_for_memory = false;  // by the kernel
  double deadlocked_seconds = 0;   // how long all threads waited for locks, if that ended the task
  CrashRecord crash = {};
  std::vector<std::string> last_lines = {};

  bool has_status() const { return not_started.empty() && lost_machine.empty(); }
  bool good() const { return status == 0 && has_status(); }
};

// Why the task died, in one line: "exited with code 7", "out of memory (limit 200 MB, peak 199
// MB)".
std::string explain(const Ending& ending);
// The exit code as a shell has it: that of the task, or 128 + the signal; 1 for a lost machine.
int exit_code_of(const Ending& ending);
// Whether a task that is started again would end in the same way: by an error of Cohort whose cause
// stays until the user corrects it.
bool would_end_again(const Ending& ending);
// How likely this end is the cause of a failed run and not a consequence of another end.
int weight_as_cause(const Ending& ending);

}  // namespace cohort::cli
