#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cohort::cli {

using Environment = std::map<std::string, std::string>;

// A program to start, as a process group of its own.
struct ChildStart {
  std::vector<std::string> command = {};  // looked for in PATH
  Environment environment = {};           // added to this process's
  std::string folder = {};                // to run in; empty: this one's
  std::string input = {};                 // what it reads; at most what a pipe holds, 64 KiB
  int reaper_end = -1;                    // see Reaper
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;  // of its data
};

// One that was started. The files are the reader's ends of what it writes.
struct Child {
  pid_t id = -1;
  int output = -1;
  int errors = -1;
};

// The child is killed with this process, and has default signals. Throws
// InvalidArgument naming the program when that cannot be started, ResourceExhausted when no process
// can.
Child start_child(const ChildStart& start);

}  // namespace cohort::cli
