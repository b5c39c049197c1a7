#include "cli/leftovers.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/waiting.h"
#include "cli/reaper.h"

namespace cohort::cli {
namespace {

constexpr char kVariable[] = "COHORT_MARKS";
constexpr char kBetween = ';';
constexpr int kTimes = 20;  // something may fork while it is looked for

std::string mark_of(const std::string& run_folder, const std::string& label) {
  return run_folder + "#" + label;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The variable's value among the others: NAME=VALUE, each behind a zero.
std::string marks_in(const std::string& environment) {
  const std::string wanted = std::string(kVariable) + "=";
  for (size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
    if (environment.compare(at, wanted.size(), wanted) == 0) {
      return environment.c_str() + at + wanted.size();
    }
    if (environment.find('\0', at) == std::string::npos) break;
  }
  return "";
}

bool has_mark(const std::string& process, const std::string& mark, bool whole) {
  const std::string marks = kBetween + marks_in(text_of(process + "/environ")) + kBetween;
  const std::string wanted = kBetween + mark + (whole ? std::string(1, kBetween) : "");
  return marks.find(wanted) != std::string::npos;
}

// The processes of this machine, by their folders in /proc.
std::vector<std::string> processes() {
  std::vector<std::string> found;
  std::error_code problem;
  for (std::filesystem::directory_iterator at("/proc", problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos) found.push_back(at->path());
  }
  return found;
}

pid_t number_of(const std::string& process) {
  return std::atoi(std::filesystem::path(process).filename().c_str());
}

}  // namespace

void add_mark(Environment& environment, const std::string& run_folder, const std::string& label) {
  const char* const present = std::getenv(kVariable);
  const std::string before = present == nullptr ? "" : std::string(present) + kBetween;
  environment[kVariable] = before + mark_of(run_folder, label);
}

void kill_marked(const std::string& run_folder, const std::string& label) {
  const std::string mark = mark_of(run_folder, label);
  for (int i = 0; i < kTimes; ++i) {
    bool any = false;
    for (const std::string& process : processes()) {
      if (!has_mark(process, mark, !label.empty())) continue;
      if (text_of(process + "/comm") == std::string(Reaper::kProcessName) + "\n") continue;
      any = kill(number_of(process), SIGKILL) == 0 || any;
    }
    if (!any) return;
    internal::sleep_for(std::chrono::milliseconds(1));  // they end
  }
}

}  // namespace cohort::cli
