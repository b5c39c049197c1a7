#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/group_updates.h"
#include "coordinator/remote_result.h"
#include "runtime/compiled_trace.h"

// Scheduled functions, and the parts of the ClosureQueue. The queue guards the parts.
namespace cohort::internal {

using Updates = std::vector<GroupUpdatePtr>;

// A scheduled call of a function.
struct Closure {
  std::shared_ptr<const Trace> trace;
  std::vector<Tensor> arguments;
  // For each argument the result of another function, if it is one; empty when no argument is.
  std::vector<std::optional<RemoteArgument>> remote = {};
  std::shared_ptr<RemoteResult> result;
  std::optional<int> worker;  // the only worker that may run it
  Updates updates = {};       // that it adds gradients to
  // The number of the call among those of the function, which random draws take: see RunNumber.
  // Each worker would count its own calls, and all would draw the same numbers.
  uint64_t draw_number = 0;
  int64_t number = 0;  // given by the queue, in the order of scheduling
  // Whether results go from worker to worker. Otherwise they go through this process, which has
  // them too.
  bool direct = true;
  bool in_group = false;  // only the queue uses this and the next field
  int missing = 0;        // how many results it waits for

  // Whether the worker has all arguments. A worker that was added later does not have the values
  // that each earlier worker has of its own.
  bool has_arguments_on(int task) const {
    return std::ranges::all_of(remote, [task](const std::optional<RemoteArgument>& argument) {
      return !argument || argument->results.size() == 1 ||
             static_cast<size_t>(task) < argument->results.size();
    });
  }
};
using ClosurePtr = std::shared_ptr<Closure>;

// The results of a closure.
struct Results {
  std::vector<Tensor> tensors = {};
  std::optional<KeptOn> kept = std::nullopt;
};

// How functions that update variables together are grouped.
struct Grouping {
  int size = 0;  // functions of a group; 0: no groups
  // Make the updates of a complete group, and of a group that will never be complete. The calls are
  // numbered from `number` on, with the same numbers when the updates are made again. Both throw.
  std::function<void(const Updates&, int64_t number)> update = {};
  std::function<void(const Updates&, int64_t number)> update_rest = {};
};

// The functions whose gradients make up the next updates.
class ClosureGroup {
 public:
  explicit ClosureGroup(int size) : size_(size) {}

  // Whether the closure may run now: groups do not concern it, or this group has it or has room.
  bool admits(const Closure& closure) const {
    return !is_grouped(closure) || closure.in_group || members_ < size_;
  }

  void begin(Closure& closure) {
    if (!is_grouped(closure) || closure.in_group) return;
    closure.in_group = true;
    ++members_;
  }

  // The closure will never add its gradients.
  void leave(Closure& closure) {
    if (!closure.in_group) return;
    closure.in_group = false;
    --members_;
  }

  // The closure has added its gradients. Returns whether that completes the group.
  [[nodiscard]] bool finish(const Closure& closure) {
    if (!closure.in_group) return false;
    ++finished_;
    for (const GroupUpdatePtr& update : closure.updates) add(update);
    return finished_ == size_;
  }

  // The closure has not finished after all: it will run again.
  void take_back(const Closure& closure) {
    if (closure.in_group) --finished_;
  }

  // The updates that the finished closures wait for.
  const Updates& updates() const { return updates_; }
  bool has_gradients() const { return finished_ > 0; }
  int num_finished() const { return finished_; }
  // Forgets the finished closures: their gradients are used or lost.
  void restart() {
    members_ -= std::exchange(finished_, 0);
    updates_.clear();
  }

  void grow() { ++size_; }

 private:
  bool is_grouped(const Closure& closure) const { return size_ > 0 && !closure.updates.empty(); }

  // Of several updates that take the same gradients, the update with the latest settings stays.
  void add(const GroupUpdatePtr& update) {
    const auto same = std::ranges::find_if(updates_, [&](const GroupUpdatePtr& each) {
      return each == update || (!update->gathering.empty() && each->gathering == update->gathering);
    });
    if (same == updates_.end()) {
      updates_.push_back(update);
    } else if ((*same)->number < update->number) {
      *same = update;
    }
  }

  int size_;
  int members_ = 0;  // closures that run, wait to run again, or have finished
  int finished_ = 0;
  Updates updates_;
};

// The closures that wait for a worker: in a line that all workers take from, or in the line of one
// worker.
class ClosureLines {
 public:
  explicit ClosureLines(int workers) : only_(static_cast<size_t>(workers)) {}

  void add_worker() { only_.emplace_back(); }
  // Appends the closure. A member of the group goes to the front, because closures behind it may
  // have to wait for its group.
  void append(const ClosurePtr& closure) {
    Line& into = closure->worker ? only_[static_cast<size_t>(*closure->worker)] : any_;
    closure->in_group ? into.push_front(closure) : into.push_back(closure);
  }

  // The next closure that the worker may run and the group admits; null when there is none.
  ClosurePtr take(int worker, const ClosureGroup& group) {
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

  std::vector<ClosurePtr> take_all() {
    std::vector<ClosurePtr> all;
    std::ranges::move(any_, std::back_inserter(all));
    any_.clear();
    for (Line& line : only_) {
      std::ranges::move(line, std::back_inserter(all));
      line.clear();
    }
    return all;
  }

 private:
  using Line = std::deque<ClosurePtr>;

  std::vector<Line> only_;  // by worker
  Line any_;
};

// The closures whose arguments are results that are not there yet.
class ClosureWaiters {
 public:
  // Returns whether the closure has to wait.
  bool add(const ClosurePtr& closure) {
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

  // The closures that waited for this result, which has come or will never come. A closure that is
  // still `missing` other results goes on waiting.
  std::vector<ClosurePtr> take(const RemoteResult& result) {
    auto found = waiting_.extract(&result);
    if (found.empty()) return {};
    for (const ClosurePtr& closure : found.mapped()) --closure->missing;
    return std::move(found.mapped());
  }

  // A closure that waits for several results appears as many times.
  std::vector<ClosurePtr> take_all() {
    std::vector<ClosurePtr> all;
    for (const auto& [result, closures] : waiting_) {
      all.insert(all.end(), closures.begin(), closures.end());
    }
    waiting_.clear();
    return all;
  }

 private:
  std::map<const RemoteResult*, std::vector<ClosurePtr>> waiting_;  // the closures keep the results
};

// The numbers of calls, in the order in which they begin, and which calls are not over.
class CallNumbers {
 public:
  // The number of one call, or the first number of several calls that end together.
  int64_t begin(int64_t calls = 1) {
    const int64_t first = next_;
    next_ += calls;
    open_.insert(open_.end(), first);
    return first;
  }
  void end(int64_t number) { open_.erase(number); }
  // All calls with smaller numbers are over.
  int64_t all_done_below() const { return open_.empty() ? next_ : *open_.begin(); }

 private:
  int64_t next_ = 1;
  std::set<int64_t> open_;
};

}  // namespace cohort::internal
