#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cohort/multi_worker.h"
#include "distribute/mirrored_extended.h"
#include "distribute/worker_collectives.h"
#include "distribute/worker_gradients.h"
#include "workers/worker_group.h"

namespace cohort::internal {

// The replicas of one worker as MirroredExtended has them, and what they make together with those
// of the other workers: first each worker reduces the values of its own replicas, then the workers
// reduce what they have.
class MultiWorkerExtended : public MirroredExtended {
 public:
  MultiWorkerExtended(std::shared_ptr<const ClusterResolver> resolver,
                      std::vector<std::string> devices, const MultiWorkerOptions& options);
  ~MultiWorkerExtended() override;

  std::string name() const override { return "MultiWorkerMirroredStrategy"; }
  int num_replicas_in_sync() const override;
  size_t replicas_on_host() const override;
  int replica_id(size_t local_replica) const override;
  StrategyTraits traits() const override;
  const ClusterResolver* cluster_resolver() const override { return resolver_.get(); }
  InputContext input_context() const override;
  InputTotals sum_over_workers(const InputTotals& here) override;
  std::vector<std::string> gather_from_workers(const std::string& here,
                                               const std::string& what) override;
  std::vector<int64_t> sum_numbers(const std::vector<int64_t>& here,
                                   const std::string& what) override;
  Tensor from_first_worker(const Tensor& value) override;

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override;
  void call_for_each_replica(const std::function<void(ReplicaContext&)>& body) override;
  DistributedValue reduce_to(ReduceOp op, const DistributedValue& value,
                             const Destinations& destinations,
                             const CommunicationOptions& options) override;
  std::vector<DistributedValue> batch_reduce_to(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;
  DistributedValue gather_to(const DistributedValue& value, const Destinations& destinations,
                             int axis, const CommunicationOptions& options) override;
  std::vector<Gradient> replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                           const std::vector<Gradient>& values,
                                           const CommunicationOptions& options) override;
  std::vector<Gradient> replica_all_reduce_gradients(ReplicaContext& context, ReduceOp op,
                                                     const std::vector<Gradient>& values,
                                                     const CommunicationOptions& options) override;
  GatheredValue replica_all_gather(ReplicaContext& context, const Tensor& value, int axis,
                                   const CommunicationOptions& options) override;
  Gradients replica_sum_gradients(ReplicaContext& context, const Gradients& own,
                                  const std::vector<Variable>& variables) override;
  std::unique_ptr<StrategyExtended> clone() const override;

  int num_workers() const { return workers_.size(); }
  int worker_id() const { return workers_.self; }
  bool is_chief() const { return workers_.is_chief; }
  Communicator communicator() const;

  // Whether `holds`, a boolean scalar, is true on all workers, which call it together.
  Tensor on_all_workers(const Tensor& holds);

  // Whether other workers make the same calls now.
  bool meets_others() const { return !is_alone() && !is_newcomer_; }

  // For BackupAndRestore. After a worker was lost: leaves the group and waits for all workers, the
  // lost one's successor among them, to form a new one. All that are left call it; variables keep
  // their values. Throws as the constructor.
  void rejoin(std::chrono::milliseconds timeout);
  // This process came to workers that had trained before, and now has their values. Until then,
  // variables are made without the others.
  void end_newcomer() { is_newcomer_ = false; }
  // In a replica: the gradients of every worker, where an optimizer had better add them up itself;
  // else empty. All workers call it.
  std::vector<Gradients> gradient_terms(const Gradients& own,
                                        const std::vector<Variable>& variables);
  // In a replica that made an update which `optimizers_count` counts: how many of them the workers
  // have made since they came together. All know that alike, while the optimizer of a worker that
  // was started again may count anew.
  int64_t count_update(const Variable& optimizers_count, size_t local_replica);
  // Who listens to the tapes of a replica; null when nobody does.
  GradientListener* gradient_listener(size_t local_replica) const;

 private:
  bool is_alone() const { return num_workers() == 1; }
  void join(std::chrono::milliseconds timeout, bool resumes);
  bool should_overlap() const;
  // A run failed here, in whose calls other workers may wait.
  void tell_workers(const Status& failure) const;
  CommunicationOptions completed(const CommunicationOptions& options) const {
    return options_.communication.merged_with(options);
  }
  // `once` for all replicas of this worker, which all call it with their own part.
  void meet(ReplicaContext& context, ReplicaCall& own,
            const std::function<void(const ReplicaCalls&)>& once);
  // The sums of gradients: for each, one of every replica of this worker.
  std::vector<Gradient> add_up(const std::vector<std::vector<Gradient>>& values) const;
  // The sums of all workers' gradients, as nodes of the graph that is being built.
  std::vector<Gradient> trace_sums(const ReplicaGradients& own,
                                   const std::vector<Variable>& variables);
  // Set the results of all replicas.
  void reduce_gradients(const ReplicaCalls& calls);
  void sum_gradients(const ReplicaCalls& calls, const std::vector<Variable>& variables);

  const std::shared_ptr<const ClusterResolver> resolver_;
  const MultiWorkerOptions options_;
  const WorkerList workers_;
  bool is_newcomer_ = false;
  std::atomic<int> runs_{0};  // of this worker, that have not ended
  const std::shared_ptr<MeetingClock> meetings_ = std::make_shared<MeetingClock>();
  WorkerCollectives together_{meetings_};
  std::unique_ptr<WorkerGroup> group_;  // null for one worker, as the next
  std::unique_ptr<WorkerGradients> gradients_;
  // Variables that this group of workers has made together, and whether it is still the group.
  std::atomic<int64_t> variables_made_ = 0;
  std::shared_ptr<std::atomic<bool>> is_current_group_ = nullptr;
  std::mutex updates_mutex_;
  // Guarded by updates_mutex_: by an optimizer's count of updates, those of each local replica.
  std::map<std::weak_ptr<const VariableImpl>, std::vector<int64_t>, std::owner_less<>> updates_;
};

}  // namespace cohort::internal
