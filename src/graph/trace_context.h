#pragma once

#include <cstdint>

namespace cohort::internal {

// What this thread is inside of. A function that is traced there may do something else elsewhere
// (in another replica it reads other copies of variables), so each place has its own traces.
struct TraceContext {
  uint64_t place = 0;       // 0 outside of everything
  bool in_replica = false;  // of several: ops may meet those of other threads like this one
};
TraceContext& trace_context();

}  // namespace cohort::internal
