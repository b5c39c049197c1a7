#pragma once

#include <string>
#include <string_view>

#include "base/activity.h"
#include "cohort/cluster.h"
#include "transport/connection.h"

namespace cohort::internal {

// What a task answers to a status request.
struct TaskStatus {
  Peer peer = {};
  uint32_t protocol = 0;
  std::string version = {};  // of the library
  uint64_t cluster = 0;      // fingerprint
  double seconds_up = 0;
  double clock = 0;  // of the task, in seconds since 1970
  std::string details = {};
  Activity activity = {};  // of the task's process
};

// The status that a task sent. Throws DataLoss, which names the address, for other bytes.
TaskStatus decode_status(std::string_view bytes, const std::string& address);

// Asks the task at "host:port", once. Throws as Endpoint::connect does, without trying again.
TaskStatus ask_status(const std::string& address, const Credentials& credentials,
                      Deadline deadline);

}  // namespace cohort::internal
