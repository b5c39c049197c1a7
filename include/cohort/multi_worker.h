#pragma once

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster_resolver.h"
#include "cohort/collective.h"
#include "cohort/credentials.h"
#include "cohort/strategy.h"

namespace cohort {

namespace internal {
class MultiWorkerExtended;
}

struct MultiWorkerOptions {
  CommunicationOptions communication = {};  // of every collective that does not say otherwise
  // Of this worker's replicas, which are as many on every worker: {"CPU:0", "CPU:1"}. Empty: all
  // GPUs, or the CPU.
  std::vector<std::string> devices = {};
  Credentials credentials = credentials_from_environment();
  GuardOptions guards = {};  // the same on all workers
  // Whether gradients are reduced while the backward pass goes on: those of a tape, or of a torch
  // module, inside `run` that are given to an optimizer as they are. By default where that pays:
  // between machines, and where cores are free. The same on all workers.
  std::optional<bool> overlap = std::nullopt;
  // How long to wait for all workers to connect. After 2 s the log names the missing ones.
  std::chrono::milliseconds start_timeout{60'000};
  // A worker that is silent for longer counts as lost. A worker that has ended is noticed at once.
  std::chrono::milliseconds silence_limit{10'000};
};

// One process on each of several machines, all running the same program, each with one replica per
// device; all replicas keep equal copies of the variables.
//
// The workers are the chief and worker tasks of the cluster. Whatever reduces, gathers, makes a
// variable, or takes the next element of a distributed dataset, all of them do together and in the
// same order; a difference is an error that names both. Losing one closes the group: every later
// call throws Unavailable with its name. With an empty cluster, or one worker, it is a
// MirroredStrategy.
//
// The constructor waits for all workers. It throws InvalidArgument for an impossible cluster, task
// or list of devices; FailedPrecondition, on every worker, when the workers do not fit together
// (other clusters, two with one index, other builds, other numbers of replicas); DeadlineExceeded
// with the names of the workers that did not connect in time; Unknown when the address is taken.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  // The cluster that resolver_from_environment() finds: of TF_CONFIG, Slurm, mpirun, torchrun.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerOptions& options = {});
  // InvalidArgument for a null pointer.
  explicit MultiWorkerMirroredStrategy(std::shared_ptr<const ClusterResolver> resolver,
                                       const MultiWorkerOptions& options = {});
  template <std::derived_from<ClusterResolver> Resolver>
  explicit MultiWorkerMirroredStrategy(const Resolver& resolver,
                                       const MultiWorkerOptions& options = {})
      : MultiWorkerMirroredStrategy(std::make_shared<const Resolver>(resolver), options) {}
  // The form of the experimental name.
  explicit MultiWorkerMirroredStrategy(CommunicationImplementation communication,
                                       std::shared_ptr<const ClusterResolver> resolver = nullptr);

  int num_workers() const;
  int worker_id() const;  // the chief, or worker 0 where there is none, is 0
  bool is_chief() const;  // whether this worker saves and logs for all
  // The group of the workers, by their ids; undefined where there is one worker.
  Communicator communicator() const;

 private:
  internal::MultiWorkerExtended& impl() const;
};

}  // namespace cohort
