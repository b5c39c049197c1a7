#include "coordinator/closure_group.h"

#include <algorithm>
#include <utility>

namespace cohort::internal {

bool ClosureGroup::is_grouped(const Closure& closure) const {
  return size_ > 0 && !closure.updates.empty();
}

bool ClosureGroup::admits(const Closure& closure) const {
  return !is_grouped(closure) || closure.in_group || members_ < size_;
}

void ClosureGroup::begin(Closure& closure) {
  if (!is_grouped(closure) || closure.in_group) return;
  closure.in_group = true;
  ++members_;
}

void ClosureGroup::leave(Closure& closure) {
  if (!closure.in_group) return;
  closure.in_group = false;
  --members_;
}

bool ClosureGroup::finish(const Closure& closure) {
  if (!closure.in_group) return false;
  ++finished_;
  for (const GroupUpdatePtr& update : closure.updates) add(update);
  return finished_ == size_;
}

// Of several updates that take the same gradients, the update with the latest settings stays.
void ClosureGroup::add(const GroupUpdatePtr& update) {
  const auto same = std::ranges::find_if(updates_, [&](const GroupUpdatePtr& each) {
    return each == update || (!update->gathering.empty() && each->gathering == update->gathering);
  });
  if (same == updates_.end()) {
    updates_.push_back(update);
  } else if ((*same)->number < update->number) {
    *same = update;
  }
}

void ClosureGroup::take_back(const Closure& closure) {
  if (closure.in_group) --finished_;
}

void ClosureGroup::restart() {
  members_ -= std::exchange(finished_, 0);
  updates_.clear();
}

}  // namespace cohort::internal
