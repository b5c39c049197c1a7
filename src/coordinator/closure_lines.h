#pragma once

#include <deque>

#include "coordinator/closure_group.h"

namespace cohort::internal {

// The functions that wait for a worker: in a line that all take from, or in the worker's own. The
// queue that has it guards it.
class ClosureLines {
 public:
  explicit ClosureLines(int workers) : only_(static_cast<size_t>(workers)) {}

  void add_worker() { only_.emplace_back(); }
  // At the end; but those behind one that is of a group may have to wait for it, so it goes before
  // them.
  void append(const ClosurePtr& closure);
  // The next that the worker may run and the group admits; null when there is none.
  ClosurePtr take(int worker, const ClosureGroup& group);
  std::vector<ClosurePtr> take_all();

 private:
  using Line = std::deque<ClosurePtr>;

  std::vector<Line> only_;  // by worker
  Line any_;
};

}  // namespace cohort::internal
