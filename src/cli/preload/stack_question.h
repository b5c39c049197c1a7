#pragma once

#include <csignal>

// How a launcher asks a thread of a task where it is: by this signal. The thread writes its stack
// behind what is in the file of this name: that of the crash report, and a suffix.

namespace cohort::cli {

inline int stack_question() { return SIGRTMAX - 2; }
inline constexpr char kStackSuffix[] = ".stack";

}  // namespace cohort::cli
