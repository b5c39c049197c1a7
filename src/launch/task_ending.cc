#include "launch/task_ending.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "base/text.h"
#include "launch/child_process.h"
#include "launch/task_output.h"

namespace cohort::cli {
namespace {

constexpr size_t kMaxFrames = 64;

uint64_t hex_number(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

// The part of a line after `key` and a space.
bool has_key(std::string_view line, std::string_view key, std::string_view& value) {
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') return false;
  value = line.substr(key.size() + 1);
  return true;
}

void take_line(const std::string& line, CrashRecord& record, std::vector<uint64_t>& frames) {
  std::string_view value;
  if (has_key(line, "signal", value)) record.signal = static_cast<int>(hex_number(value));
  if (has_key(line, "code", value)) record.code = static_cast<int>(hex_number(value));
  if (has_key(line, "address", value)) record.address = hex_number(value);
  if (has_key(line, "exception", value)) record.exception = value;
  if (has_key(line, "what", value)) record.what = value;
  if (has_key(line, "frame", value) && frames.size() < kMaxFrames) {
    frames.push_back(hex_number(value));
  }
  if (line == "stack_overflow") record.stack_overflow = true;
  if (line == "terminate") record.terminated = true;
}

using std::string_view_literals::operator""sv;
constexpr auto kLimit = std::chrono::seconds(5);  // debug information can be large

const MappedFile* file_at(uint64_t address, const std::vector<MappedFile>& files) {
  const auto found = std::ranges::find_if(
      files, [&](const MappedFile& file) { return file.begin <= address && address < file.end; });
  return found == files.end() ? nullptr : &*found;
}

// Programs that are linked for one place have absolute addresses.
bool is_fixed(const std::string& path) {
  Elf64_Ehdr header{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  return file && header.e_type == ET_EXEC;
}

// A frame of the stack.
struct Frame {
  std::string file;  // its name, without directories
  uint64_t offset = 0;
  bool is_call = true;    // else a signal interrupted the instruction
  std::string name = {};  // "function at file.cc:12", where that is known

  std::string text() const { return name.empty() ? fmt::format("{}+{:#x}", file, offset) : name; }
};

// "train_step() at /home/me/train.cc:17 (discriminator 2)" without directories and question marks.
std::string readable(const std::string& line) {
  const size_t at = line.find(" at ");
  if (at == std::string::npos || line.starts_with("??")) return "";
  const std::string place(internal::last_part(line.substr(at + 4, line.find(" (", at) - at - 4)));
  const bool known = place.find('?') == std::string::npos;
  return known ? line.substr(0, at) + " at " + place : line.substr(0, at);
}

void look_up(const std::string& path, const std::vector<Frame*>& frames) {
  std::vector<std::string> command{"addr2line", "-Cfpe", path};
  for (const Frame* frame : frames) {
    // A return address lies after the call; one byte before it is inside the call.
    command.push_back(fmt::format("{:#x}", frame->offset - (frame->is_call ? 1 : 0)));
  }
  std::istringstream lines(captured_output(command, kLimit));
  std::string line;
  for (Frame* frame : frames) {
    if (!std::getline(lines, line)) return;
    frame->name = readable(line);
  }
}

constexpr std::string_view kReporter = "libcohort_crash_report";

// After the frames of the handler come the frame of the system and then the interrupted frame.
void mark_interrupted(std::vector<Frame>& frames) {
  size_t i = 0;
  while (i < frames.size() && frames[i].file.starts_with(kReporter)) ++i;
  if (i + 1 < frames.size()) frames[i + 1].is_call = false;
}

// Frames of the libraries that raise signals and exceptions, and of Cohort's own raise().
bool is_machinery(const Frame& frame) {
  if (frame.name.find("cohort::internal::raise<") != std::string::npos) return true;
  for (const std::string_view library : {kReporter, "libc.so"sv, "libstdc++"sv, "libgcc"sv}) {
    if (frame.file.starts_with(library)) return true;
  }
  return false;
}

// Leaves out the libraries and the frames below main, and counts a frame that repeats itself.
std::vector<std::string> of_interest(const std::vector<Frame>& frames) {
  std::vector<std::string> texts;
  size_t repeated = 0;
  auto frame = std::ranges::find_if_not(frames, is_machinery);
  for (; frame != frames.end(); ++frame) {
    if (!texts.empty() && texts.back() == frame->text()) {
      ++repeated;
      continue;
    }
    if (repeated > 0) texts.push_back(fmt::format("(the same {} times more)", repeated));
    repeated = 0;
    texts.push_back(frame->text());
    if (texts.back() == "main" || texts.back().starts_with("main at ")) return texts;
  }
  if (repeated > 0) texts.push_back(fmt::format("(the same {} times more)", repeated));
  return texts;
}

std::string megabytes(uint64_t bytes) { return fmt::format("{} MB", bytes >> 20); }

std::string out_of_memory(const Ending& ending) {
  const std::string limit =
      ending.memory_limit_bytes ? "limit " + megabytes(*ending.memory_limit_bytes) : "no limit set";
  return fmt::format("out of memory ({}, peak {})", limit, megabytes(ending.peak_bytes));
}

// std::bad_alloc, or the error that LibTorch or this library throws in its place.
bool is_lack_of_memory(const CrashRecord& crash) {
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
      crash.address < 4096 ? "a null pointer was used" : "memory that is not mapped was used";
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
      return fmt::format("killed (signal 9) by another process, not for lack of memory (peak {})",
                         megabytes(ending.peak_bytes));
    case SIGTERM:
      return "terminated (signal 15) by another process";
    default:
      return fmt::format("signal {} ({})", signal, strsignal(signal));
  }
}

// Only a std::exception has a text.
std::string explain_exception(const CrashRecord& crash) {
  return fmt::format("uncaught exception {}{}{}", crash.exception, crash.what.empty() ? "" : ": ",
                     crash.what);
}

// Whether the text of the exception begins with one of these codes.
bool has_code(const CrashRecord& crash, std::initializer_list<const char*> codes) {
  return std::ranges::any_of(codes, [&](const char* code) { return crash.what.starts_with(code); });
}

// Whether the task died because it noticed the end of another.
bool is_consequence(const CrashRecord& crash) {
  return has_code(crash, {"UNAVAILABLE", "ABORTED", "CANCELLED"});
}

std::string cause_of(const Ending& ending) {
  if (!ending.not_started.empty()) return ending.not_started;
  if (!ending.lost_machine.empty()) return ending.lost_machine;
  if (ending.killed_for_memory || is_lack_of_memory(ending.crash)) return out_of_memory(ending);
  if (ending.deadlocked_seconds > 0) {
    return fmt::format("deadlock: all of its threads waited for locks for {:.0f} s",
                       ending.deadlocked_seconds);
  }
  if (!ending.crash.exception.empty()) return explain_exception(ending.crash);
  if (WIFSIGNALED(ending.status)) return explain_signal(WTERMSIG(ending.status), ending);
  return fmt::format("exited with code {}", WEXITSTATUS(ending.status));
}

}  // namespace

CrashRecord read_crash_record(const std::string& path) {
  CrashRecord record;
  std::ifstream file(path);
  std::vector<uint64_t> frames;
  std::string line;
  while (std::getline(file, line) && line != "maps") take_line(line, record, frames);
  std::vector<MappedFile> files;
  while (std::getline(file, line)) add_mapping(line, files);
  record.frames = names_of(frames, files, record.signal == 0 ? StackOf::Call : StackOf::Signal);
  return record;
}

void add_mapping(const std::string& line, std::vector<MappedFile>& files) {
  unsigned long long begin = 0, end = 0;
  const size_t path = line.find('/');
  if (path == std::string::npos || std::sscanf(line.c_str(), "%llx-%llx", &begin, &end) != 2)
    return;
  const std::string name = line.substr(path);
  if (files.empty() || files.back().path != name) files.push_back({name, begin, end});
  files.back().end = end;
}

std::vector<std::string> names_of(const std::vector<uint64_t>& addresses,
                                  const std::vector<MappedFile>& files, StackOf of) {
  std::vector<Frame> frames;
  frames.reserve(addresses.size());
  std::map<std::string, std::vector<Frame*>> by_file;
  for (const uint64_t address : addresses) {
    const MappedFile* const file = file_at(address, files);
    if (file == nullptr) continue;
    const uint64_t offset = is_fixed(file->path) ? address : address - file->begin;
    frames.push_back({.file = std::string(internal::last_part(file->path)), .offset = offset});
    by_file[file->path].push_back(&frames.back());
  }
  if (of == StackOf::Signal) mark_interrupted(frames);
  for (const auto& [path, inside] : by_file) look_up(path, inside);
  return of_interest(frames);
}

// The text of an exception may be long and may have any bytes.
std::string explain(const Ending& ending) {
  constexpr size_t kWidth = 2000;
  return shortened(printable(cause_of(ending)), kWidth);
}

int exit_code_of(const Ending& ending) {
  if (!ending.not_started.empty()) return 127;
  if (!ending.lost_machine.empty()) return 1;
  return WIFSIGNALED(ending.status) ? 128 + WTERMSIG(ending.status) : WEXITSTATUS(ending.status);
}

bool would_end_again(const Ending& ending) {
  // The codes for which docs/errors.md says that the cause must be corrected, and the end of the
  // data.
  return ending.crash.exception.starts_with("cohort::") &&
         has_code(ending.crash, {"INVALID_ARGUMENT: ", "FAILED_PRECONDITION: ", "NOT_FOUND: ",
                                 "ALREADY_EXISTS: ", "UNIMPLEMENTED: ", "PERMISSION_DENIED: ",
                                 "UNAUTHENTICATED: ", "OUT_OF_RANGE: "});
}

int weight_as_cause(const Ending& ending) {
  if (ending.good()) return 0;
  if (is_consequence(ending.crash)) return 1;
  const bool violent = !ending.has_status() || WIFSIGNALED(ending.status);
  return violent ? 3 : 2;
}

}  // namespace cohort::cli
