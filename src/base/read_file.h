#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace cohort::internal {

// The first `max_bytes` of a file, or all of a shorter one. Nothing, and errno says why, if the
// file cannot be opened or read.
std::optional<std::string> read_file(const std::string& path, size_t max_bytes = SIZE_MAX);

}  // namespace cohort::internal
