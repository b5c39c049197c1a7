#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/purpose.h"
#include "base/thread.h"
#include "cohort/strategy.h"
#include "distribute/replica_random.h"
#include "distribute/replica_rendezvous.h"
#include "distribute/shared_variables.h"
#include "distribute/variable_scopes.h"
#include "distribute/write_order.h"
#include "graph/graph_impl.h"
#include "tensor/devices.h"

namespace cohort::internal {

// The threads that run a strategy's replicas, one run at a time. Replica 0 is the caller's thread;
// the others are kept, and between runs wait on their devices.
class ReplicaThreads {
 public:
  ReplicaThreads(Strategy& strategy, WriteOrder& order);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  using Body = std::function<void(ReplicaContext&)>;
  // Returns when all replicas have; throws the first exception.
  void run(const Body& body);

 private:
  class Inside;  // what a replica's code is inside of

  // What the caller's thread was inside of, for the other replicas.
  struct Surroundings {
    const Device* device = nullptr;
    std::vector<VariableCreator> creators;
    std::shared_ptr<GraphImpl> graph;  // that is being built; null when none is
    std::string name_prefix;
    std::vector<Tensor> controls;
    bool numerics_guarded = false;
    bool syncs_on_read = false;
    std::shared_ptr<ReadCache> cache;
    const CollectivePurpose* purpose = nullptr;
    std::optional<ReplicaRandom> random;  // none for one replica, which draws as its caller
  };

  void perform(size_t replica);
  void wait_for_work(size_t replica);
  void start_others();
  void await_others();

  Strategy& strategy_;
  WriteOrder& order_;
  const std::vector<std::string> devices_;
  const size_t sharers_;  // of the cores, other workers' replicas among them
  const SpinWait waiting_;
  ReplicaRendezvous meeting_;
  SharedVariables variables_;
  std::deque<ReplicaContext> contexts_;  // kept, so that one used too late is still there to say so

  const Body* body_ = nullptr;
  Surroundings surroundings_;
  std::atomic<uint32_t> running_{0};  // other replicas that have not ended
  std::atomic<uint32_t> orders_{0};   // changes when there is work
  std::atomic<bool> stopping_{false};
  std::vector<Thread> threads_;  // the last member: they use all others
};

// As many ReplicaThreads as a strategy has runs at the same time: one, unless runs nest or several
// threads run.
class ReplicaThreadPool {
 public:
  // Threads that are free; given back at the end.
  class Lease {
   public:
    Lease(ReplicaThreadPool& from, Strategy& strategy);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ReplicaThreads* operator->() const { return leased_.get(); }

   private:
    ReplicaThreadPool& from_;
    std::unique_ptr<ReplicaThreads> leased_;
  };

  // Of the writes of all runs.
  const std::shared_ptr<WriteOrder>& order() const { return order_; }

 private:
  const std::shared_ptr<WriteOrder> order_ = std::make_shared<WriteOrder>();
  std::mutex mutex_;
  std::vector<std::unique_ptr<ReplicaThreads>> free_;  // guarded by mutex_
};

}  // namespace cohort::internal
