#pragma once

#include <string>
#include <string_view>

#include "base/activity.h"
#include "cohort/credentials.h"
#include "transport/connection.h"

namespace cohort::internal {

// What a task answers when it is asked how it is.
struct TaskStatus {
  Peer peer = {};
  uint32_t protocol = 0;
  std::string version = {};  // of the library
  uint64_t cluster = 0;      // fingerprint
  double seconds_up = 0;
  double clock = 0;  // its own, in seconds since 1970
  std::string details = {};
  Activity activity = {};  // of its process
};

// What a task sent. DataLoss, naming the address, for bytes that are none.
TaskStatus decode_status(std::string_view bytes, const std::string& address);

// Asks who listens at "host:port", once. Throws as Party::connect does, without trying again.
TaskStatus ask_status(const std::string& address, const Credentials& credentials,
                      Deadline deadline);

}  // namespace cohort::internal
