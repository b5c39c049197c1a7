#pragma once

// How the examples print lists of numbers: "[0, 1]".

#include <cstdint>
#include <string>
#include <vector>

inline std::string to_list(const std::vector<int64_t>& numbers) {
  std::string list;
  for (int64_t number : numbers) list += (list.empty() ? "" : ", ") + std::to_string(number);
  return "[" + list + "]";
}
