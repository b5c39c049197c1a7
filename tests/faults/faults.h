#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace cohort::test {

// Waits until `holds`, for a while.
inline bool soon(const std::function<bool()>& holds,
                 std::chrono::seconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// The number of the last whole line "word number"; -1 when there is none.
inline double last_number(const std::string& output, const std::string& word) {
  const size_t end = output.rfind('\n');
  if (end == std::string::npos || end < word.size()) return -1;
  const size_t begin = output.rfind(word + " ", end - 1);
  return begin == std::string::npos ? -1 : std::stod(output.substr(begin + word.size() + 1));
}

}  // namespace cohort::test
