#pragma once

#include <string>

namespace cohort::internal {

// Logs a warning, for templates in public headers.
void warn(const std::string& message);

}  // namespace cohort::internal
