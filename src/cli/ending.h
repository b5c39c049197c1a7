#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/crash_record.h"

namespace cohort::cli {

// How a task ended, with all that was found out about it on its machine.
struct Ending {
  int status = 0;                // as waitpid gives it
  std::string not_started = {};  // why there was no program; then nothing else is known
  // Why its machine is; then how it ended is unknown, and the launcher's own count of the seconds
  // and its last lines are all there is.
  std::string lost_machine = {};
  double seconds = 0;
  uint64_t peak_bytes = 0;
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;
  bool killed_for_memory = false;  // by the kernel
  double deadlocked_seconds = 0;   // for how long all threads waited for locks, when that ended it
  CrashRecord crash = {};
  std::vector<std::string> last_lines = {};

  bool has_status() const { return not_started.empty() && lost_machine.empty(); }
  bool good() const { return status == 0 && has_status(); }
};

// Why it died, in one line: "exited with code 7", "out of memory (limit 200 MB, peak 199 MB)".
std::string explain(const Ending& ending);
// What a shell would say: the exit code, or 128 and the signal; 1 for one whose machine is lost.
int exit_code_of(const Ending& ending);
// How likely it is that this is where the trouble began, and not a consequence of another task's.
int weight_as_cause(const Ending& ending);

}  // namespace cohort::cli
