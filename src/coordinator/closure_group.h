#pragma once

#include "coordinator/closures.h"

namespace cohort::internal {

// The functions whose gradients make up the next updates.
class ClosureGroup {
 public:
  explicit ClosureGroup(int size) : size_(size) {}

  // Whether the closure may run now: groups do not concern it, or this group has it or has room.
  bool admits(const Closure& closure) const;
  void begin(Closure& closure);
  // The closure will never add its gradients.
  void leave(Closure& closure);
  // The closure has added its gradients. Returns whether that completes the group.
  [[nodiscard]] bool finish(const Closure& closure);
  // The closure has not finished after all: it will run again.
  void take_back(const Closure& closure);

  // The updates that the finished closures wait for.
  const Updates& updates() const { return updates_; }
  bool has_gradients() const { return finished_ > 0; }
  // Forgets the finished closures: their gradients are used or lost.
  void restart();
  void grow() { ++size_; }

 private:
  bool is_grouped(const Closure& closure) const;
  void add(const GroupUpdatePtr& update);

  int size_;
  int members_ = 0;  // closures that run, wait to run again, or have finished
  int finished_ = 0;
  Updates updates_;
};

}  // namespace cohort::internal
