#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "base/thread_context.h"
#include "cohort/internal/run_observer.h"
#include "cohort/internal/torch_random.h"
#include "cohort/random.h"
#include "cohort/strategy.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "distribute/variables/write_order.h"
#include "tensor/devices.h"

namespace cohort::internal {

// The random numbers of the replicas of one run. Those of a replica depend on the caller's
// generator and the replica's id alone, so that replicas differ and a seed repeats them.
class ReplicaRandom {
 public:
  // Takes one number from the caller's generator, and one from torch's.
  ReplicaRandom() : origin_(random::default_generator().split()), torch_(draw_torch_seed()) {}
  random::Generator of(int replica_id) const;
  // The seed of torch's functions in the replica.
  uint64_t torch_seed_of(int replica_id) const;

 private:
  random::Generator origin_;
  uint64_t torch_;
};

// A variable's name without what tells replicas apart: each "_" with one digit directly before a
// "/" or at the end goes. An empty name becomes "Variable".
std::string canonical_variable_name(std::string name);

// The variables that the replicas of one run make. Replica 0 makes them; the others get, for the
// k-th variable of a name that they ask for, the k-th that replica 0 made. The first call of a
// layer counts for itself (FirstCallInitializer). Thread-safe.
class SharedVariables {
 public:
  SharedVariables(ReplicaRendezvous& rendezvous, size_t replicas);

  // Forgets what was made; before a run.
  void begin();
  Variable make(size_t replica, const NextCreator& next, const VariableRequest& request);

 private:
  Variable make_first(const std::string& name, const NextCreator& next,
                      const VariableRequest& request);
  Variable find(size_t replica, const std::string& name, const VariableRequest& request);

  ReplicaRendezvous& rendezvous_;
  Mutex mutex_;
  std::map<std::string, std::vector<Variable>> made_;  // guarded by mutex_
  std::vector<std::map<std::string, size_t>> asked_;   // by replica; each uses its own
};

// The threads that run a strategy's replicas, one run at a time. Replica 0 runs in the caller's
// thread. The threads of the others wait between runs.
class ReplicaThreads {
 public:
  ReplicaThreads(Strategy& strategy, WriteOrder& order);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  using Body = std::function<void(ReplicaContext&)>;
  // Returns when all replicas have ended; throws the first exception.
  void run(const Body& body);

 private:
  class ReplicaScopes;

  // In a replica's own thread, `context` gets the caller's; it is null in the caller's thread.
  void perform(size_t replica, ThreadContext* context);
  void wait_for_work(size_t replica);
  void start_others();
  void await_others();

  Strategy& strategy_;
  WriteOrder& order_;
  const std::vector<std::string> devices_;
  const size_t sharers_;  // replicas on this host, those of other workers included
  const SpinWait waiting_;
  ReplicaRendezvous rendezvous_;
  SharedVariables variables_;
  std::deque<ReplicaContext> contexts_;  // kept, so that a late use of one is an error, not a crash

  const Body* body_ = nullptr;
  ThreadContext caller_context_;  // the functions of the other replicas run inside it
  const Device* caller_device_ = nullptr;
  std::optional<ReplicaRandom> random_;  // none for one replica, which draws as its caller
  std::atomic<uint32_t> running_{0};     // other replicas that have not ended
  std::atomic<uint32_t> orders_{0};      // changes when there is work
  std::atomic<bool> stopping_{false};
  std::vector<Thread> threads_;  // the last member: they use all others
};

// The ReplicaThreads of a strategy, of which there is one unless runs nest or several threads call
// run(), and the observers of its runs.
class ReplicaThreadPool {
 public:
  // One run, and the calls of the observers before and after it.
  void run(Strategy& strategy, const ReplicaThreads::Body& body);
  void add(const std::shared_ptr<RunObserver>& observer);
  // The order of the writes of all runs.
  const std::shared_ptr<WriteOrder>& order() const { return order_; }

 private:
  using Observers = std::vector<std::shared_ptr<RunObserver>>;

  // Threads that are free.
  std::unique_ptr<ReplicaThreads> take(Strategy& strategy);
  // Adds to `begun` the observers that were told of the beginning but not of the end.
  void run_observed(Strategy& strategy, const ReplicaThreads::Body& body, Observers& begun);
  Observers observers();

  const std::shared_ptr<WriteOrder> order_ = std::make_shared<WriteOrder>();
  Mutex mutex_;  // guards the next two
  std::vector<std::unique_ptr<ReplicaThreads>> free_;
  std::vector<std::weak_ptr<RunObserver>> observers_;
};

}  // namespace cohort::internal
