#pragma once

#include <functional>

#include "coordinator/closure.h"

namespace cohort::internal {

// How functions that update variables together are grouped.
struct Grouping {
  int size = 0;  // functions of a group; 0: each is on its own
  // Makes the updates of a group that is complete, and of one that never will be. They have numbers
  // of calls, from the one that is given on: the same when they are made again. Throw.
  std::function<void(const Updates&, int64_t number)> update = {};
  std::function<void(const Updates&, int64_t number)> update_rest = {};
};

// The functions whose gradients make up the next updates. The queue that has it guards it.
class ClosureGroup {
 public:
  explicit ClosureGroup(int size) : size_(size) {}

  // Whether the closure may run now: it does not belong to groups, or is of this one, or may be.
  bool admits(const Closure& closure) const;
  void begin(Closure& closure);
  // It did not add its gradients, and will not.
  void leave(Closure& closure);
  // It has added its gradients. Whether the group is complete with it.
  [[nodiscard]] bool finish(const Closure& closure);
  // It has not finished after all: it is to run again.
  void take_back(const Closure& closure);

  // That those wait for which have finished.
  const Updates& updates() const { return updates_; }
  bool has_gradients() const { return finished_ > 0; }
  // Forgets those that have finished: their gradients are used, or lost.
  void restart();
  void grow() { ++size_; }

 private:
  bool is_grouped(const Closure& closure) const;
  void add(const GroupUpdatePtr& update);

  int size_;
  int members_ = 0;  // that run, wait to run again, or have finished
  int finished_ = 0;
  Updates updates_;
};

}  // namespace cohort::internal
