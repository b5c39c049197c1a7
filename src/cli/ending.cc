#include "cli/ending.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "cli/task_output.h"

namespace cohort::cli {
namespace {

std::string megabytes(uint64_t bytes) { return fmt::format("{} MB", bytes >> 20); }

std::string out_of_memory(const Ending& ending) {
  const std::string limit =
      ending.memory_limit_bytes ? "limit " + megabytes(*ending.memory_limit_bytes) : "no limit set";
  return fmt::format("out of memory ({}, peak {})", limit, megabytes(ending.peak_bytes));
}

// bad_alloc, and what LibTorch and this library throw in its place.
bool is_want_of_memory(const CrashRecord& crash) {
  return crash.exception == "std::bad_alloc" ||
         crash.what.find("can't allocate memory") != std::string::npos ||
         crash.what.find("not enough memory") != std::string::npos;
}

// What assert() wrote: "program: file.cc:7: void f(): Assertion `x > 0' failed."
std::string failed_assertion(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const size_t at = line->find("Assertion `");
    if (at != std::string::npos && line->ends_with("failed.")) return *line;
  }
  return "";
}

std::string stack_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(" (limit {})", megabytes(limit.rlim_cur));
}

std::string explain_segmentation_fault(const CrashRecord& crash) {
  if (crash.stack_overflow) {
    return "stack overflow" + stack_limit() + ": a recursion without end, or a huge local variable";
  }
  // A fault has a code; without one a process sent the signal.
  if (crash.signal == 0 || crash.code <= 0) return "segmentation fault (signal 11)";
  const char* const what =
      crash.address < 4096 ? "a null pointer was used" : "memory that is not there was used";
  return fmt::format("segmentation fault (signal 11): {}, address {:#x}", what, crash.address);
}

std::string explain_abort(const Ending& ending) {
  const std::string assertion = failed_assertion(ending.last_lines);
  if (!assertion.empty()) return "assertion failed: " + assertion;
  if (ending.crash.terminated) {
    return "std::terminate() was called without an exception (signal 6): was a std::thread "
           "destroyed before join() or detach()?";
  }
  return "abort() was called (signal 6)";
}

std::string explain_arithmetic(const CrashRecord& crash) {
  const bool division = crash.signal == SIGFPE && crash.code == FPE_INTDIV;
  return std::string("arithmetic error (signal 8)") +
         (division ? ": integer division by zero" : "");
}

std::string explain_signal(int signal, const Ending& ending) {
  switch (signal) {
    case SIGSEGV:
      return explain_segmentation_fault(ending.crash);
    case SIGABRT:
      return explain_abort(ending);
    case SIGFPE:
      return explain_arithmetic(ending.crash);
    case SIGBUS:
      return "bus error (signal 7): a mapped file became shorter, or shared memory ran out";
    case SIGKILL:
      return fmt::format("killed (signal 9) by somebody else, not for want of memory (peak {})",
                         megabytes(ending.peak_bytes));
    case SIGTERM:
      return "terminated (signal 15) by somebody else";
    default:
      return fmt::format("signal {} ({})", signal, strsignal(signal));
  }
}

// What is no std::exception has no text.
std::string explain_exception(const CrashRecord& crash) {
  return fmt::format("exception {} that nobody caught{}{}", crash.exception,
                     crash.what.empty() ? "" : ": ", crash.what);
}

// A task that noticed another one's end.
bool is_consequence(const CrashRecord& crash) {
  for (const char* code : {"UNAVAILABLE", "ABORTED", "CANCELLED"}) {
    if (crash.what.starts_with(code)) return true;
  }
  return false;
}

std::string cause_of(const Ending& ending) {
  if (!ending.not_started.empty()) return ending.not_started;
  if (!ending.lost_machine.empty()) return ending.lost_machine;
  if (ending.killed_for_memory || is_want_of_memory(ending.crash)) return out_of_memory(ending);
  if (ending.deadlocked_seconds > 0) {
    return fmt::format("deadlock: all of its threads waited for locks for {:.0f} s",
                       ending.deadlocked_seconds);
  }
  if (!ending.crash.exception.empty()) return explain_exception(ending.crash);
  if (WIFSIGNALED(ending.status)) return explain_signal(WTERMSIG(ending.status), ending);
  return fmt::format("exited with code {}", WEXITSTATUS(ending.status));
}

}  // namespace

// What a program has to say of an exception may be long, and anything.
std::string explain(const Ending& ending) {
  constexpr size_t kWidth = 2000;
  return shortened(printable(cause_of(ending)), kWidth);
}

int exit_code_of(const Ending& ending) {
  if (!ending.not_started.empty()) return 127;
  if (!ending.lost_machine.empty()) return 1;
  return WIFSIGNALED(ending.status) ? 128 + WTERMSIG(ending.status) : WEXITSTATUS(ending.status);
}

int weight_as_cause(const Ending& ending) {
  if (ending.good()) return 0;
  if (is_consequence(ending.crash)) return 1;
  const bool violent = !ending.has_status() || WIFSIGNALED(ending.status);
  return violent ? 3 : 2;
}

}  // namespace cohort::cli
