#include "cluster/long_waits.h"

#include <algorithm>

namespace cohort::internal {

std::vector<WaitNote> notes_of(std::vector<LongWait> waits) {
  constexpr size_t kMaxShown = 4;  // the rest waits for the same, as a rule
  std::sort(waits.begin(), waits.end(),
            [](const LongWait& a, const LongWait& b) { return a.since < b.since; });
  waits.resize(std::min(waits.size(), kMaxShown));
  std::vector<WaitNote> notes;
  for (const LongWait& wait : waits)
    notes.emplace_back(wait.kind, wait.what, wait.whom, wait.since);
  return notes;
}

}  // namespace cohort::internal
