#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace cohort::cli {

// Runs a program and returns what it writes to its output: all of it, or what came within the
// limit; then it is killed. Nothing when it cannot be started.
std::string captured_output(const std::vector<std::string>& command,
                            std::chrono::milliseconds limit);

}  // namespace cohort::cli
