#pragma once

#include "cohort/cluster_resolver.h"
#include "cohort/internal/durations.h"
#include "cohort/strategy.h"

namespace cohort {

class Communicator;  // cohort/collective.h

// MultiWorkerOptions configures a MultiWorkerMirroredStrategy.
struct MultiWorkerOptions {
  CommunicationOptions communication = {};  // for calls that set none
  // The devices of this worker, one replica on each: {"CPU:0", "CPU:1"}. All workers must have the
  // same number of replicas. Empty: all GPUs, or the CPU.
  std::vector<std::string> devices = {};
  Credentials credentials = credentials_from_environment();
  GuardOptions guards = {};  // the same on all workers
  // Whether the workers reduce gradients while the backward pass still runs. This concerns
  // gradients of a tape or a torch module that reach an optimizer unchanged, inside `run`. By
  // default they do between machines, or if cores are free. The same on all workers.
  std::optional<bool> overlap = std::nullopt;
  // How long to wait for all workers to connect. After 2 s the log names the missing workers.
  std::chrono::milliseconds start_timeout{60'000};
  // How long a worker may be silent before it counts as lost. Its end is noticed at once.
  std::chrono::milliseconds silence_limit{10'000};
};

// MultiWorkerMirroredStrategy trains with several processes, usually on several machines. Each runs
// the same program with one replica per device; all replicas keep equal copies of the variables.
//
//   MultiWorkerMirroredStrategy workers({.devices = {"CPU:0"}});
//   auto scope = workers.scope();
//   Variable weight(0.f);
//   const auto step = [&](Tensor rows) {
//     optimizer.minimize([&] { return mean(square(rows - weight)); }, {weight});
//   };
//   for (const auto& batch : workers.distribute_dataset(dataset)) workers.run(step, batch);
//
// The workers are the chief and worker tasks of the cluster. All workers together, and in the same
// order, reduce, gather, create variables and take the next element of a distributed dataset; calls
// that differ are an error that names both. The loss of a worker closes the group: every later call
// throws Unavailable with that worker's name. With an empty cluster, or one worker, the strategy
// behaves as a MirroredStrategy.
//
// The constructor waits for all workers. It throws
// - InvalidArgument if the cluster, the task or the list of devices is impossible,
// - FailedPrecondition, on every worker, if the workers do not fit together (they have different
//  clusters, the same index, different builds or different numbers of replicas),
// - DeadlineExceeded, with the names of the missing workers, if some do not connect in time,
// - Unknown if the address is in use.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  // Takes the cluster from resolver_from_environment(): TF_CONFIG, Slurm, mpirun, torchrun.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerOptions& options = {});
  // Throws InvalidArgument if `resolver` is null.
  explicit MultiWorkerMirroredStrategy(std::shared_ptr<const ClusterResolver> resolver,
                                       const MultiWorkerOptions& options = {});
  template <std::derived_from<ClusterResolver> Resolver>
  explicit MultiWorkerMirroredStrategy(const Resolver& resolver,
                                       const MultiWorkerOptions& options = {})
      : MultiWorkerMirroredStrategy(std::make_shared<const Resolver>(resolver), options) {}
  // The form that tf.distribute.experimental.MultiWorkerMirroredStrategy has.
  explicit MultiWorkerMirroredStrategy(CommunicationImplementation communication,
                                       std::shared_ptr<const ClusterResolver> resolver = nullptr);

  int num_workers() const;
  int worker_id() const;  // 0 for the chief, or for worker 0 if the cluster has no chief
  bool is_chief() const;  // whether this worker saves and logs for all workers
  // The group of the workers, by their ids; undefined if there is one worker.
  Communicator communicator() const;
};

}  // namespace cohort
