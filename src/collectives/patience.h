#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

#include "collectives/group.h"

namespace cohort::internal {

// For some time a wait only gives the core away between looks, then it sleeps between them for a
// part of the time that it has waited: nobody has to be woken.
struct Patience {
  std::chrono::microseconds awake{200};
  std::chrono::microseconds short_sleep{20};
  std::chrono::microseconds long_sleep{500};
  int part = 32;
};

// Waits until is_there(). Throws when the group is closed, or at the call's deadline.
template <typename IsThere>
void wait_patiently(CollectiveGroup& group, const CollectiveGroup::Awaited& awaited,
                    const IsThere& is_there, const Patience& patience = {}) {
  using std::chrono::steady_clock;
  const uint64_t call = awaited.call->number;
  CollectiveGroup::Wait wait = group.begin_wait();
  while (!is_there()) {
    if (group.is_over(call) && !is_there()) group.throw_if_over(call);
    const auto waited = steady_clock::now() - wait.began;
    if (waited < patience.awake) {
      sched_yield();
      continue;
    }
    group.look_at_clock(wait, awaited);
    std::this_thread::sleep_for(std::clamp<steady_clock::duration>(
        waited / patience.part, patience.short_sleep, patience.long_sleep));
  }
}

}  // namespace cohort::internal
