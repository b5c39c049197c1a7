#pragma once

#include <string_view>

#include "cohort/error.h"
#include "transport/message_fields.h"

namespace cohort::internal {

// How a Status travels. Its text is cut at this length, so that a large one can not do harm.
inline constexpr size_t kMaxStatusText = 4096;
// Longer chains lose their middle: the root cause always arrives.
inline constexpr int kMaxStatusCauses = 16;

// An empty origin means the sender, and becomes `self`, the sender's name.
void write_status(const Status& status, std::string_view self, MessageWriter& writer);
// Throws DataLoss when it is none.
Status read_status(MessageReader& reader);

}  // namespace cohort::internal
