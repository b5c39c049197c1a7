#include "cli/crash_record.h"

#include <charconv>
#include <fstream>
#include <string>

#include "cli/symbols.h"

namespace cohort::cli {
namespace {

constexpr size_t kMaxFrames = 64;

uint64_t hex_number(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

// The part of a line behind `key` and a space.
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

}  // namespace cohort::cli
