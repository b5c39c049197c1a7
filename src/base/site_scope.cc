#include "base/site_scope.h"

namespace cohort::internal {

CallSites& call_sites() {
  static constinit ContextSlot<CallSites> slot;
  return slot.get();
}

}  // namespace cohort::internal
