#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

// What a task wrote down when it died (src/cli/preload). Empty when it could not.
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

// Reads the file of that name; frames get names and lines as far as addr2line finds them. Nothing
// in the file is trusted. An empty record when there is none.
CrashRecord read_crash_record(const std::string& path);

}  // namespace cohort::cli
