#include "graph/trace_context.h"

namespace cohort::internal {

TraceContext& trace_context() {
  thread_local TraceContext context;
  return context;
}

}  // namespace cohort::internal
