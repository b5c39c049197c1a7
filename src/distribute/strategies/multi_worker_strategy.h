#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cohort/multi_worker.h"
#include "collectives/worker_communicator.h"
#include "distribute/reduce/replica_calls.h"
#include "distribute/reduce/worker_collectives.h"
#include "distribute/reduce/worker_gradients.h"
#include "distribute/strategies/mirrored_strategy.h"
#include "distribute/strategies/worker_strategies.h"
#include "membership/member.h"

namespace cohort::internal {

// The replicas of one worker, as MirroredExtended has them, together with the replicas of the other
// workers. Each worker first reduces the values of its own replicas, then the workers reduce the
// results.
class MultiWorkerExtended : public MirroredExtended,
                            public JointWorkers,
                            public CrossWorkerInput,
                            public GradientReducer {
 public:
  MultiWorkerExtended(std::shared_ptr<const ClusterResolver> resolver,
                      std::vector<std::string> devices, const MultiWorkerOptions& options);
  ~MultiWorkerExtended() override;

  std::string name() const override { return "MultiWorkerMirroredStrategy"; }
  StrategyTraits traits() const override;

  InputContext input_context() const override;
  InputTotals sum_over_workers(const InputTotals& here) override;
  std::vector<std::string> gather_from_workers(const std::string& here,
                                               const std::string& what) override;
  std::vector<int64_t> sum_numbers(const std::vector<int64_t>& here,
                                   const std::string& what) override;
  Tensor from_first_worker(const Tensor& value) override;

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override;
  void call_for_each_replica(const std::function<void(ReplicaContext&)>& body) override;
  std::vector<DistributedValue> batch_reduce_to(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;
  DistributedValue gather_to(const DistributedValue& value, const Destinations& destinations,
                             int axis, const CommunicationOptions& options) override;
  std::vector<Gradient> replica_all_reduce(ReplicaContext& context,
                                           const ReplicaReduction& own) override;
  Gradients sum_gradients(ReplicaContext& context, const Gradients& own,
                          const std::vector<Variable>& variables) override;
  std::unique_ptr<StrategyExtended> clone() const override;

  int num_workers() const override { return workers_.size(); }
  int worker_id() const override { return workers_.self; }
  bool is_chief() const { return workers_.is_chief; }
  Communicator communicator() const override;
  Tensor on_all_workers(const Tensor& holds) override;
  bool meets_others() const override { return !is_alone() && !is_newcomer_; }
  int64_t count_update(const Variable& optimizers_count, size_t local_replica) override;
  GradientListener* gradient_listener(size_t local_replica) const override;
  void rejoin(std::chrono::milliseconds timeout) override { join(timeout, generation_); }
  void end_newcomer() override { is_newcomer_ = false; }

 private:
  bool is_alone() const { return num_workers() == 1; }
  // The group of several workers. Throws Unavailable with the reason if this worker has left its
  // group and the next one was not formed.
  WorkerCommunicator& group() const;
  size_t replicas_on_this_host() const;
  // `generation` is that of the group that this worker was in before; 0 without one.
  void join(std::chrono::milliseconds timeout, uint64_t generation);
  void form_group(std::chrono::milliseconds timeout, uint64_t generation);
  bool should_overlap() const;
  // Tells the other workers that a run failed here, because they may wait in its calls.
  void tell_workers(const Status& failure) const;
  CommunicationOptions completed(const CommunicationOptions& options) const {
    return options_.communication.merged_with(options);
  }
  // Reduces values that are not equal on all workers.
  std::vector<DistributedValue> reduce_together(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options);
  // Adds up gradients. `values` has, for each gradient, that of every replica of this worker.
  std::vector<Gradient> add_up(const std::vector<std::vector<Gradient>>& values) const;
  // Sets the results of all replicas: at once, or as nodes of the graph that is being built.
  void reduce_gradients(const ReplicaCalls& calls);
  // Every replica gets a copy of each sum on its own device.
  void give_sums(const std::vector<Gradient>& sums, const ReplicaCalls& calls) const;

  const std::shared_ptr<const ClusterResolver> resolver_;
  const MultiWorkerOptions options_;
  const WorkerList workers_;
  bool is_newcomer_ = false;
  uint64_t generation_ = 0;   // of the last group that was formed
  std::atomic<int> runs_{0};  // of this worker, that have not ended
  const std::shared_ptr<GroupWaitClock> group_wait_ = std::make_shared<GroupWaitClock>();
  WorkerCollectives together_{group_wait_};
  // Null for one worker, and after a join that failed; so is the next.
  std::unique_ptr<WorkerCommunicator> group_;
  std::unique_ptr<WorkerGradients> gradients_;
  Status not_joined_;  // why group_ is null
  // Variables that this group of workers has made together, and whether it is still the group.
  std::atomic<int64_t> variables_made_ = 0;
  std::shared_ptr<std::atomic<bool>> is_current_group_ = nullptr;
  Mutex updates_mutex_;
  // Guarded by updates_mutex_: by an optimizer's count of updates, those of each local replica.
  std::map<std::weak_ptr<const VariableImpl>, std::vector<int64_t>, std::owner_less<>> updates_;
};

}  // namespace cohort::internal
