#pragma once

#include <grpc/support/time.h>

#include "transport/connection.h"

namespace cohort::internal {

// gRPC's monotonic clock is the same one.
inline gpr_timespec to_grpc_time(Deadline deadline) {
  if (deadline == Deadline::max()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const auto since = deadline.time_since_epoch();
  return {.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(since).count(),
          .tv_nsec = static_cast<int32_t>((since % std::chrono::seconds(1)).count()),
          .clock_type = GPR_CLOCK_MONOTONIC};
}

}  // namespace cohort::internal
