#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace cohort::cli {

using Environment = std::map<std::string, std::string>;

// A program to start, as a process group of its own.
struct ChildStart {
  std::vector<std::string> command = {};  // looked for in PATH
  Environment environment = {};           // added to that of this process
  std::string directory = {};             // to run in; empty: that of this process
  std::string input = {};                 // its standard input; at most 64 KiB, which a pipe holds
  int reaper_end = -1;                    // see Reaper
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;  // of its data
};

// A program that was started. The files are the reading ends of its output and its errors.
struct Child {
  pid_t id = -1;
  internal::FileDescriptor output = {};
  internal::FileDescriptor errors = {};
};

// The child is killed when this process ends, and handles signals by default. Throws
// InvalidArgument with the name of a program that cannot be started, ResourceExhausted if the
// system starts no more processes.
Child start_child(const ChildStart& start);

// Runs a program and returns its output within the limit; then the program is killed. Empty if the
// program cannot be started.
std::string captured_output(const std::vector<std::string>& command,
                            std::chrono::milliseconds limit);

// The file of that name that belongs to this command: beside it where it was built, in
// ../libexec/cohort where it is installed. Empty if the file is in neither place.
std::string helper_file(const std::string& name);

// Replaces this process by cohort-compute with these arguments. Throws NotFound if that program
// cannot be started.
[[noreturn]] void exec_helper(const std::vector<std::string>& words,
                              const Environment& environment = {});

}  // namespace cohort::cli
