#pragma once

#include "rpc/greeting.h"
#include "rpc/pump.h"
#include "rpc/stream_call.h"

namespace cohort::internal {

// What a task tells about itself.
struct StatusSource {
  Greeting greeting = {};
  double seconds_up = 0;
  std::function<std::string()> details = {};  // text, if there is more to tell
};
// Answers a status request.
void send_status(const std::shared_ptr<Pump>& pump, const std::shared_ptr<ServerCall>& call,
                 StatusSource source);

}  // namespace cohort::internal
