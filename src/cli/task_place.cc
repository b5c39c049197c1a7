#include "cli/task_place.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/waiting.h"
#include "cli/preload/stack_question.h"
#include "cli/symbols.h"

namespace cohort::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kStackLimit{400};
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr std::chrono::milliseconds kMeasured{
    100};  // for how long it is seen whether a process computes

// What /proc says of a process or a thread.
struct ProcessState {
  char state = '?';  // R: runs, S: sleeps, D: waits for a disk, T and t: is stopped
  long ticks = 0;    // of the processor, so far
};
ProcessState state_of(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string text;
  std::getline(file, text);
  // Behind the name, which may have any letters: state and ten more, then two times.
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

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process); }
std::string folder_of(pid_t process, pid_t thread) {
  return folder_of(process) + "/task/" + std::to_string(thread);
}

// Whether the process has a handler for the signal; others would die of it.
bool handles(pid_t process, int signal) {
  std::ifstream file(folder_of(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    const unsigned long long caught = std::strtoull(line.c_str() + 7, nullptr, 16);
    return (caught >> (signal - 1) & 1) != 0;
  }
  return false;
}

// Nothing until it is whole.
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
      {.awake = std::chrono::microseconds(0), .min_sleep = kLookAgain, .max_sleep = kLookAgain});
  unlink(file.c_str());
  return frames.value_or(std::vector<uint64_t>{});
}

// The first thread, other than the main one, for which `wanted` says so of its folder in /proc.
template <typename Wanted>
std::optional<pid_t> other_thread(pid_t process, const Wanted& wanted) {
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder_of(process) + "/task", problem), end;
       !problem && at != end; at.increment(problem)) {
    const pid_t thread = std::stoi(at->path().filename());
    if (thread != process && wanted(at->path().string())) return thread;
  }
  return std::nullopt;
}

bool is_running(const std::string& thread) { return state_of(thread).state == 'R'; }

// The stages of datasets give their threads these names.
bool makes_input(const std::string& thread) {
  std::ifstream file(thread + "/comm");
  std::string name;
  std::getline(file, name);
  return name == "prefetch" || name == "map" || name == "batch";
}

std::vector<std::string> frames_of(pid_t process, pid_t thread, const std::string& crash_file) {
  const std::vector<uint64_t> frames = ask_for_frames(process, thread, crash_file + kStackSuffix);
  if (frames.empty()) return {};
  std::ifstream maps(folder_of(process) + "/maps");
  std::vector<MappedFile> files;
  for (std::string line; std::getline(maps, line);) add_mapping(line, files);
  return names_of(frames, files, StackOf::Signal);
}

bool computes(pid_t process) {
  const long before = state_of(folder_of(process)).ticks;
  internal::sleep_for(kMeasured);
  const long used = state_of(folder_of(process)).ticks - before;
  return used * 1000 / sysconf(_SC_CLK_TCK) >= kMeasured.count() / 4;
}

}  // namespace

TaskPlace find_place(const internal::Activity& activity, const std::string& crash_file) {
  const pid_t process = activity.process;
  const char state = state_of(folder_of(process)).state;
  TaskPlace place{.doing = {}, .input_seconds = activity.current_input_seconds, .frames = {}};
  if (state == '?') place.doing = "has ended";
  if (state == 'T' || state == 't') {
    place.doing = fmt::format("is stopped (SIGSTOP); kill -CONT {} lets it go on", process);
  }
  if (!place.doing.empty()) return place;
  // On a busy machine it may have got no processor meanwhile.
  const bool busy = computes(process) || (state == 'R' && is_running(folder_of(process)));
  place.doing = busy ? "computes" : state == 'D' ? "waits for a disk" : "sleeps";
  if (!handles(process, stack_question())) return place;
  place.frames = frames_of(process, process, crash_file);
  std::optional<pid_t> other;
  if (busy && !is_running(folder_of(process, process))) other = other_thread(process, is_running);
  if (!busy && place.input_seconds > 0) other = other_thread(process, makes_input);
  if (!other) return place;
  // What a thread works at comes before what the main one waits in.
  std::vector<std::string> frames = frames_of(process, *other, crash_file);
  // A thread of a dataset that waits for room leaves its work to the main one.
  if (frames.empty() || frames[0].find("WorkerQueue::run") != std::string::npos) return place;
  frames.emplace_back("the main thread:");
  frames.insert(frames.end(), place.frames.begin(), place.frames.end());
  place.frames = std::move(frames);
  return place;
}

}  // namespace cohort::cli
