#pragma once

#include <string>
#include <string_view>

#include "cohort/server.h"

namespace cohort::internal {

std::string encode_server_status(const ServerStatus& status);
// Throws DataLoss if the bytes are not a status.
ServerStatus decode_server_status(std::string_view bytes);

}  // namespace cohort::internal
