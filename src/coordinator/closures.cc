#include "coordinator/closures.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/closure_group.h"

namespace cohort::internal {

bool Closure::has_arguments_on(int task) const {
  return std::ranges::all_of(remote, [task](const std::optional<RemoteArgument>& argument) {
    return !argument || argument->results.size() == 1 ||
           static_cast<size_t>(task) < argument->results.size();
  });
}

void ClosureLines::append(const ClosurePtr& closure) {
  Line& into = closure->worker ? only_[static_cast<size_t>(*closure->worker)] : any_;
  closure->in_group ? into.push_front(closure) : into.push_back(closure);
}

ClosurePtr ClosureLines::take(int worker, const ClosureGroup& group) {
  const auto may_run = [&](const Line& line) {
    return !line.empty() && group.admits(*line.front()) && line.front()->has_arguments_on(worker);
  };
  Line& own = only_[static_cast<size_t>(worker)];
  const bool from_own = may_run(own);
  const bool from_any = may_run(any_);
  if (!from_own && !from_any) return nullptr;
  const bool own_first = from_own && (!from_any || own.front()->number < any_.front()->number);
  Line& from = own_first ? own : any_;
  ClosurePtr closure = std::move(from.front());
  from.pop_front();
  return closure;
}

std::vector<ClosurePtr> ClosureLines::take_all() {
  std::vector<ClosurePtr> all;
  std::ranges::move(any_, std::back_inserter(all));
  any_.clear();
  for (Line& line : only_) {
    std::ranges::move(line, std::back_inserter(all));
    line.clear();
  }
  return all;
}

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
