#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

// A file that was mapped into a process, from its lowest to its highest address there.
struct MappedFile {
  std::string path = {};
  uint64_t begin = 0;
  uint64_t end = 0;
};
// Takes a line of /proc/<id>/maps. The lines of one file follow each other.
void add_mapping(const std::string& line, std::vector<MappedFile>& files);

// "function at file.cc:12" for each address, by addr2line; where that is missing or knows nothing,
// "library.so+0x1234". Frames of the crash report itself and below main are left out. `of` says
// what the innermost frame that counts is: a call, or the instruction that a signal interrupted.
enum class StackOf { Call, Signal };
std::vector<std::string> names_of(const std::vector<uint64_t>& addresses,
                                  const std::vector<MappedFile>& files, StackOf of);

}  // namespace cohort::cli
