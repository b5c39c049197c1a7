#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cohort/internal/run_observer.h"
#include "cohort/strategy_extended.h"
#include "distribute/variables/write_order.h"

namespace cohort::internal {

class ReplicaThreads;

// A variable's name without what tells replicas apart: each "_" with one digit directly before a
// "/" or at the end goes. An empty name becomes "Variable".
std::string canonical_variable_name(std::string name);

// The ReplicaThreads of a strategy, of which there is one unless runs nest or several threads call
// run(), and the observers of its runs.
class ReplicaThreadPool {
 public:
  using Body = std::function<void(ReplicaContext&)>;

  ReplicaThreadPool();
  ~ReplicaThreadPool();
  // One run, and the calls of the observers before and after it.
  void run(Strategy& strategy, const Body& body);
  void add(const std::shared_ptr<RunObserver>& observer);
  // The order of the writes of all runs.
  const std::shared_ptr<WriteOrder>& order() const { return order_; }

 private:
  using Observers = std::vector<std::shared_ptr<RunObserver>>;

  // Threads that are free.
  std::unique_ptr<ReplicaThreads> take(Strategy& strategy);
  // Adds to `begun` the observers that were told of the beginning but not of the end.
  void run_observed(Strategy& strategy, const Body& body, Observers& begun);
  Observers observers();

  const std::shared_ptr<WriteOrder> order_ = std::make_shared<WriteOrder>();
  Mutex mutex_;  // guards the next two
  std::vector<std::unique_ptr<ReplicaThreads>> free_;
  std::vector<std::weak_ptr<RunObserver>> observers_;
};

}  // namespace cohort::internal
