#include "launch/process_state.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/read_file.h"
#include "base/text.h"
#include "base/waiting.h"
#include "launch/preload/stack_question.h"
#include "launch/task_ending.h"

namespace cohort::cli {
namespace {

// The file has the number of the system call and its arguments, or a word.
bool waits_for_a_lock(const std::string& thread) {
  std::ifstream file(thread + "/syscall");
  long call = -1;
  unsigned long address = 0, operation = 0, value = 0, limit = 0;
  file >> call >> std::hex >> address >> operation >> value >> limit;
  if (!file || call != SYS_futex) return false;
  const unsigned long what = operation & static_cast<unsigned long>(FUTEX_CMD_MASK);
  const bool waits = what == FUTEX_WAIT || what == FUTEX_WAIT_BITSET || what == FUTEX_LOCK_PI;
  // A lock that other processes share may be released by them.
  return waits && (operation & FUTEX_PRIVATE_FLAG) != 0 && limit == 0;
}

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kStackLimit{400};
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr std::chrono::milliseconds kMeasured{100};  // to see whether a process computes

// What /proc says of a process or a thread.
struct ProcessState {
  char state = '?';  // R: runs, S: sleeps, D: waits for a disk, T and t: is stopped
  long ticks = 0;    // of the processor, so far
};
ProcessState state_of(const std::string& directory) {
  std::ifstream file(directory + "/stat");
  std::string text;
  std::getline(file, text);
  // After the name, which may have any letters, come the state and ten more fields, then two times.
  const size_t name_end = text.rfind(')');
  ProcessState found;
  long user = 0, system = 0;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1,
                  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %ld", &found.state, &user,
                  &system) != 3) {
    return {};
  }
  found.ticks = user + system;
  return found;
}

std::string proc_directory(pid_t process) { return "/proc/" + std::to_string(process); }
std::string proc_directory(pid_t process, pid_t thread) {
  return proc_directory(process) + "/task/" + std::to_string(thread);
}

// Whether the process handles the signal; without a handler it would die of it.
bool handles(pid_t process, int signal) {
  std::ifstream file(proc_directory(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    const unsigned long long caught = std::strtoull(line.c_str() + 7, nullptr, 16);
    return (caught >> (signal - 1) & 1) != 0;
  }
  return false;
}

// Nothing until the file is complete.
std::optional<std::vector<uint64_t>> read_frames(const std::string& file) {
  std::ifstream from(file);
  std::vector<uint64_t> frames;
  for (std::string line; std::getline(from, line);) {
    if (line == "end") return frames;
    if (line.starts_with("frame ")) frames.push_back(std::strtoull(line.c_str() + 6, nullptr, 16));
  }
  return std::nullopt;
}

std::vector<uint64_t> ask_for_frames(pid_t process, pid_t thread, const std::string& file) {
  unlink(file.c_str());
  if (syscall(SYS_tgkill, process, thread, stack_question()) != 0) return {};
  std::optional<std::vector<uint64_t>> frames;
  (void)internal::poll_until(
      Clock::now() + kStackLimit, [&] { return (frames = read_frames(file)).has_value(); },
      internal::PollPolicy::every(kLookAgain));
  unlink(file.c_str());
  return frames.value_or(std::vector<uint64_t>{});
}

// Empty if /proc does not have them.
std::vector<pid_t> threads_of(pid_t process) {
  std::error_code problem;
  const std::vector<pid_t> threads = numbers_in(proc_directory(process) + "/task", problem);
  return problem ? std::vector<pid_t>() : threads;
}

// The first thread, except the main one, whose directory in /proc is wanted.
template <typename Wanted>
std::optional<pid_t> other_thread(pid_t process, const Wanted& wanted) {
  for (const pid_t thread : threads_of(process)) {
    if (thread != process && wanted(proc_directory(process, thread))) return thread;
  }
  return std::nullopt;
}

bool is_running(const std::string& thread) { return state_of(thread).state == 'R'; }

// The stages of datasets give their threads these names.
bool makes_input(const std::string& thread) {
  const std::string name = internal::read_file(thread + "/comm").value_or("");
  return name == "prefetch\n" || name == "map\n" || name == "batch\n";
}

std::vector<std::string> frames_of(pid_t process, pid_t thread, const std::string& crash_file) {
  const std::vector<uint64_t> frames = ask_for_frames(process, thread, crash_file + kStackSuffix);
  if (frames.empty()) return {};
  std::ifstream maps(proc_directory(process) + "/maps");
  std::vector<MappedFile> files;
  for (std::string line; std::getline(maps, line);) add_mapping(line, files);
  return names_of(frames, files, StackOf::Signal);
}

bool computes(pid_t process) {
  const long before = state_of(proc_directory(process)).ticks;
  internal::pause_for(kMeasured);
  const long used = state_of(proc_directory(process)).ticks - before;
  return used * 1000 / sysconf(_SC_CLK_TCK) >= kMeasured.count() / 4;
}

}  // namespace

std::vector<pid_t> numbers_in(const std::string& directory, std::error_code& problem) {
  std::vector<pid_t> found;
  for (std::filesystem::directory_iterator at(directory, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (const auto number = internal::parse_non_negative(at->path().filename().string())) {
      found.push_back(*number);
    }
  }
  return found;
}

bool all_threads_wait_for_locks(pid_t process) {
  const std::vector<pid_t> threads = threads_of(process);
  return !threads.empty() && std::ranges::all_of(threads, [&](pid_t thread) {
    return waits_for_a_lock(proc_directory(process, thread));
  });
}

TaskPlace find_place(const internal::Activity& activity, const std::string& crash_file) {
  const pid_t process = activity.process;
  const char state = state_of(proc_directory(process)).state;
  TaskPlace place{.doing = {}, .input_seconds = activity.current_input_seconds, .frames = {}};
  if (state == '?') place.doing = "has ended";
  if (state == 'T' || state == 't') {
    place.doing = fmt::format("is stopped (SIGSTOP); kill -CONT {} lets it go on", process);
  }
  if (!place.doing.empty()) return place;
  // On a busy machine the process may not have got a core meanwhile.
  const bool busy = computes(process) || (state == 'R' && is_running(proc_directory(process)));
  place.doing = busy ? "computes" : state == 'D' ? "waits for a disk" : "sleeps";
  if (!handles(process, stack_question())) return place;
  place.frames = frames_of(process, process, crash_file);
  std::optional<pid_t> other;
  if (busy && !is_running(proc_directory(process, process)))
    other = other_thread(process, is_running);
  if (!busy && place.input_seconds > 0) other = other_thread(process, makes_input);
  if (!other) return place;
  // The thread that works comes before the main thread, which waits for it.
  std::vector<std::string> frames = frames_of(process, *other, crash_file);
  // A thread of a dataset that waits for room does not hold up the main thread.
  if (frames.empty() || frames[0].find("ParallelQueue::run") != std::string::npos) return place;
  frames.emplace_back("the main thread:");
  frames.insert(frames.end(), place.frames.begin(), place.frames.end());
  place.frames = std::move(frames);
  return place;
}

}  // namespace cohort::cli
