#pragma once

#include <map>

#include "coordinator/closure.h"

namespace cohort::internal {

// The functions that cannot run yet: arguments of theirs are results that are not there. The queue
// that has it guards it.
class ClosureWaiters {
 public:
  // Whether the closure has to wait; it is one of them then.
  bool add(const ClosurePtr& closure);
  // Those that waited for this result, which is there or never will be. They wait no more, or for
  // the results of others that they are still `missing`.
  std::vector<ClosurePtr> take(const RemoteResult& result);
  // A closure that waits for several results comes as often.
  std::vector<ClosurePtr> take_all();

 private:
  std::map<const RemoteResult*, std::vector<ClosurePtr>> waiting_;  // which the closures keep
};

}  // namespace cohort::internal
