#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "coordinator/group_updates.h"
#include "coordinator/remote_result.h"
#include "runtime/traces.h"

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
  int64_t number = 0;         // given by the queue, in the order of scheduling
  // Whether results go from worker to worker. Otherwise they go through this process, which has
  // them too.
  bool direct = true;
  bool in_group = false;  // only the queue uses this and the next field
  int missing = 0;        // how many results it waits for

  // Whether the worker has all arguments. A worker that was added later does not have the values
  // that each earlier worker has of its own.
  bool has_arguments_on(int task) const;
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

class ClosureGroup;

// The closures that wait for a worker: in a line that all workers take from, or in the line of one
// worker.
class ClosureLines {
 public:
  explicit ClosureLines(int workers) : only_(static_cast<size_t>(workers)) {}

  void add_worker() { only_.emplace_back(); }
  // Appends the closure. A member of the group goes to the front, because closures behind it may
  // have to wait for its group.
  void append(const ClosurePtr& closure);
  // The next closure that the worker may run and the group admits; null when there is none.
  ClosurePtr take(int worker, const ClosureGroup& group);
  std::vector<ClosurePtr> take_all();

 private:
  using Line = std::deque<ClosurePtr>;

  std::vector<Line> only_;  // by worker
  Line any_;
};

// The closures whose arguments are results that are not there yet.
class ClosureWaiters {
 public:
  // Returns whether the closure has to wait.
  bool add(const ClosurePtr& closure);
  // The closures that waited for this result, which has come or will never come. A closure that is
  // still `missing` other results goes on waiting.
  std::vector<ClosurePtr> take(const RemoteResult& result);
  // A closure that waits for several results appears as many times.
  std::vector<ClosurePtr> take_all();

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
