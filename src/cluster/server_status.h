#pragma once

#include <string>
#include <string_view>

#include "cohort/server.h"

namespace cohort::internal {

// A status as it travels. Reading throws DataLoss for what is none.
std::string write_server_status(const ServerStatus& status);
ServerStatus read_server_status(std::string_view bytes);

}  // namespace cohort::internal
