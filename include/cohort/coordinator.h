#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/data.h"
#include "cohort/native_function.h"
#include "cohort/parameter_server.h"
#include "cohort/per_worker.h"
#include "cohort/remote_value.h"

namespace cohort {

struct ClusterCoordinatorOptions {
  // How many functions may wait for a worker; <= 0: any number.
  int64_t queue_capacity = 262'144;
  // How many run on a worker at the same time.
  int functions_per_worker = 2;
  // Whether results may be arguments of later functions. They are kept on the workers that made
  // them as long as a RemoteValue refers to them, and go from worker to worker.
  bool remote_arguments = false;
  // A function that takes longer fails with DeadlineExceeded; 0 = no limit.
  std::chrono::milliseconds function_timeout{0};
  // How long a worker that is lost may stay away before that is an error.
  std::chrono::milliseconds worker_recovery_timeout{3'600'000};
  // The failure of a parameter server that counts, and the timeout that does; the ones before are
  // forgiven, and forgotten after a minute without any. What several functions meet at the same
  // time is one failure. A server whose process is gone counts at once. From the variables
  // TF_COORDINATOR_IGNORE_TRANSIENT_PS_FAILURES (3) and TF_COORDINATOR_IGNORE_TRANSIENT_TIMEOUTS (a
  // tenth of the workers) when not given.
  std::optional<int> ps_failures_until_error = std::nullopt;
  std::optional<int> timeouts_until_error = std::nullopt;
  // Gives the variables their values back when a parameter server was started again without them,
  // e.g. from the last checkpoint. Without it, that is an error.
  std::function<void()> restore = {};
  int restore_limit = 3;  // times without a minute of health between them
  // How long a parameter server may stay away when there is `restore`.
  std::chrono::milliseconds ps_recovery_timeout{60'000};
};

// Has functions run on the workers of a ParameterServerStrategy. A handle: coordinators of one
// strategy are one; the options of the first count. Must not outlive the strategy. Thread-safe.
//
// A function runs at least once on some worker. One whose worker is lost runs again elsewhere; what
// it had changed on parameter servers by then is not changed again.
//
// Errors: when a function fails, the next schedule(), join() or done() ends what runs, cancels what
// waits, and throws the first error; nothing runs then, and the coordinator is as new. A worker
// that is lost is waited for while the others go on, and gets its iterators anew. A parameter
// server that stays away, or comes back without its variables and without `restore`, is Unavailable
// from those three.
class ClusterCoordinator {
 public:
  // Throws InvalidArgument for another strategy than a ParameterServerStrategy.
  explicit ClusterCoordinator(Strategy& strategy, const ClusterCoordinatorOptions& options = {});

  // Lets a worker run the function, and returns at once unless the queue is full. A traced function
  // (cohort::function) is sent to each worker once; any other callable is traced at each call.
  // Per-worker iterators and values among the arguments are those of the worker that runs it. It
  // waits for the RemoteValues among them, and fails as they do. Throws InvalidArgument for a
  // RemoteValue unless there are `remote_arguments`, FailedPrecondition, naming it, for what cannot
  // be sent.
  template <typename F, typename... Args>
  auto schedule(const F& f, const Args&... args) {
    return schedule_at(std::nullopt, f, args...);
  }
  // The same on that worker and no other.
  template <typename F, typename... Args>
  auto schedule_on(int worker, const F& f, const Args&... args) {
    return schedule_at(worker, f, args...);
  }
  // The same on every worker, each with a result of its own.
  template <typename F, typename... Args>
  auto run_on_each_worker(const F& f, const Args&... args);
  // The function that the workers' program has registered under this name, see
  // cohort/native_function.h.
  RemoteValue<std::vector<Tensor>> schedule_native(std::string_view name,
                                                   const std::vector<Tensor>& inputs,
                                                   const std::vector<TensorSpec>& outputs);

  // Returns when everything that was scheduled has run. Other threads' schedule() waits meanwhile.
  void join();
  // Whether nothing waits and nothing runs.
  bool done();

  // The values of all RemoteValues in a structure; everything else as it is.
  template <typename T>
  auto fetch(const T& values) const {
    return internal::map_leaves(internal::FetchLeaf(), values);
  }
  void fetch(const RemoteValue<void>& nothing) const { nothing.fetch(); }

  // A dataset for each worker, from a function that gives one (called once for each worker, with
  // its InputContext, also for one that comes later), from a dataset that all of them walk over, or
  // from one that the strategy distributes. Throws InvalidArgument when the function makes
  // variables, FailedPrecondition when a dataset cannot be sent.
  template <std::invocable F>
  PerWorkerDataset create_per_worker_dataset(const F& make) {
    return make_per_worker([make] { return internal::PerWorkerSpec(make()); });
  }
  PerWorkerDataset create_per_worker_dataset(const data::Dataset& dataset);
  PerWorkerDataset create_per_worker_dataset(const DistributedDataset& dataset);

  // What each worker's variable is, in the order of the workers.
  std::vector<Tensor> read_all(const PerWorkerVariable& variable);

  // Whether both are handles of the same coordinator.
  friend bool operator==(const ClusterCoordinator&, const ClusterCoordinator&) = default;

  int num_workers() const;
  // Lets a worker that was not in the cluster before take part from here on: the server at this
  // "host:port", whose own cluster has it as the worker of the number that is returned and which
  // says that it `joins_later`. Functions with PerWorkerValues that were made before do not run
  // there.
  int add_worker(const std::string& address);
  // Ends the servers of all tasks, and with them this coordinator's work.
  void shutdown_cluster();

 private:
  template <typename F, typename... Args>
  auto schedule_at(std::optional<int> worker, const F& f, const Args&... args);
  std::shared_ptr<internal::RemoteResult> enqueue(
      std::optional<int> worker, const std::function<internal::TracedCall()>& trace,
      const internal::RemoteArguments& remote, std::shared_ptr<const void>& structure);
  PerWorkerDataset make_per_worker(const std::function<internal::PerWorkerSpec()>& make);

  std::shared_ptr<internal::ClusterCoordinatorState> state_;
};

}  // namespace cohort

#include "cohort/internal/coordinator_inl.h"  // IWYU pragma: export
