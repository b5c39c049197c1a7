#pragma once

#include <unistd.h>

#include <string>

namespace cohort::bench {

// Where this program is, to start it again as another process.
inline std::string own_path() {
  char path[4096] = {};
  return readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "";
}

}  // namespace cohort::bench
