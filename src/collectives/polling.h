#pragma once

#include "base/waiting.h"
#include "collectives/group.h"

namespace cohort::internal {

// Waits until is_there(). Throws when the group is closed, or at the call's deadline.
template <typename IsThere>
void poll_in_group(CollectiveGroup& group, const CollectiveGroup::Awaited& awaited,
                   const IsThere& is_there, const PollPolicy& policy = {}) {
  const uint64_t call = awaited.call->number;
  CollectiveGroup::Wait wait = group.begin_wait();
  const Poll poll(policy);
  while (!is_there()) {
    if (group.is_over(call) && !is_there()) group.throw_if_over(call);
    poll.pause([&] { group.look_at_clock(wait, awaited); });
  }
}

}  // namespace cohort::internal
