#include "coordinator/closure_waiters.h"

#include <utility>

namespace cohort::internal {

bool ClosureWaiters::add(const ClosurePtr& closure) {
  for (const std::optional<RemoteArgument>& argument : closure->remote) {
    if (!argument) continue;
    for (const auto& result : argument->results) {
      if (result->is_settled()) continue;
      waiting_[result.get()].push_back(closure);
      ++closure->missing;
    }
  }
  return closure->missing > 0;
}

std::vector<ClosurePtr> ClosureWaiters::take(const RemoteResult& result) {
  auto found = waiting_.extract(&result);
  if (found.empty()) return {};
  for (const ClosurePtr& closure : found.mapped()) --closure->missing;
  return std::move(found.mapped());
}

std::vector<ClosurePtr> ClosureWaiters::take_all() {
  std::vector<ClosurePtr> all;
  for (const auto& [result, closures] : waiting_) {
    all.insert(all.end(), closures.begin(), closures.end());
  }
  waiting_.clear();
  return all;
}

}  // namespace cohort::internal
