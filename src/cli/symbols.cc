#include "cli/symbols.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/captured_output.h"

namespace cohort::cli {
namespace {

using std::string_view_literals::operator""sv;
constexpr auto kLimit = std::chrono::seconds(5);  // debug information can be large

const MappedFile* file_at(uint64_t address, const std::vector<MappedFile>& files) {
  const auto found = std::find_if(files.begin(), files.end(), [&](const MappedFile& file) {
    return file.begin <= address && address < file.end;
  });
  return found == files.end() ? nullptr : &*found;
}

// Programs that are linked for one place have absolute addresses.
bool is_fixed(const std::string& path) {
  Elf64_Ehdr header{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  return file && header.e_type == ET_EXEC;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// One frame of the stack.
struct Frame {
  std::string file;  // its name, without folders
  uint64_t offset = 0;
  bool is_call = true;    // else the instruction at that place was interrupted
  std::string name = {};  // "function at file.cc:12", where that is known

  std::string text() const { return name.empty() ? fmt::format("{}+{:#x}", file, offset) : name; }
};

// "train_step() at /home/me/train.cc:17 (discriminator 2)" without folders, and without what
// addr2line does not know.
std::string readable(const std::string& line) {
  const size_t at = line.find(" at ");
  if (at == std::string::npos || line.starts_with("??")) return "";
  const std::string place = file_name(line.substr(at + 4, line.find(" (", at) - at - 4));
  const bool known = place.find('?') == std::string::npos;
  return known ? line.substr(0, at) + " at " + place : line.substr(0, at);
}

void look_up(const std::string& path, const std::vector<Frame*>& frames) {
  std::vector<std::string> command{"addr2line", "-Cfpe", path};
  for (const Frame* frame : frames) {
    // A return address is behind the call: one back is inside of it.
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

// Below the handler there is the frame by which the system called it, then the interrupted one.
void mark_interrupted(std::vector<Frame>& frames) {
  size_t i = 0;
  while (i < frames.size() && frames[i].file.starts_with(kReporter)) ++i;
  if (i + 1 < frames.size()) frames[i + 1].is_call = false;
}

// What brings a signal or an exception about, innermost of all.
bool is_machinery(const Frame& frame) {
  for (const std::string_view library : {kReporter, "libc.so"sv, "libstdc++"sv, "libgcc"sv}) {
    if (frame.file.starts_with(library)) return true;
  }
  return false;
}

// Without machinery and what is below main; a frame that repeats itself is counted.
std::vector<std::string> of_interest(const std::vector<Frame>& frames) {
  std::vector<std::string> texts;
  size_t repeated = 0;
  auto frame = std::find_if_not(frames.begin(), frames.end(), is_machinery);
  for (; frame != frames.end(); ++frame) {
    if (!texts.empty() && texts.back() == frame->text()) {
      ++repeated;
      continue;
    }
    if (repeated > 0) texts.push_back(fmt::format("(the same {} times more)", repeated));
    repeated = 0;
    texts.push_back(frame->text());
    if (texts.back().starts_with("main at ")) return texts;
  }
  if (repeated > 0) texts.push_back(fmt::format("(the same {} times more)", repeated));
  return texts;
}

}  // namespace

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
    frames.push_back({.file = file_name(file->path), .offset = offset});
    by_file[file->path].push_back(&frames.back());
  }
  if (of == StackOf::Signal) mark_interrupted(frames);
  for (const auto& [path, inside] : by_file) look_up(path, inside);
  return of_interest(frames);
}

}  // namespace cohort::cli
