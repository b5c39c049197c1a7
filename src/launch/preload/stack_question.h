#pragma once

#include <csignal>

// A launcher asks a thread of a task where it is by this signal. The thread appends its stack to
// the file with the name of the crash report and this suffix.

namespace cohort::cli {

inline int stack_question() { return SIGRTMAX - 2; }
inline constexpr char kStackSuffix[] = ".stack";

}  // namespace cohort::cli
