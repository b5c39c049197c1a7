#pragma once

#include <variant>

#include "cohort/function.h"
#include "cohort/internal/durations.h"
#include "cohort/internal/remote_values.h"
#include "cohort/native_function.h"
#include "cohort/parameter_server.h"

namespace cohort {

// RemoteValueStatus says how far a scheduled function is.
enum class RemoteValueStatus {
  NotReady,
  Ready,    // with a value or an error
  Aborted,  // lost with its worker; schedule the function again
};

// RemoteValue is the result of a scheduled function, which may still be running.
//
//   const auto total = coordinator.schedule([&] { return sum(w.read_value()); });
//   const Tensor value = total.fetch();
//
// Write `auto`, because T follows from the function: a step that returns what Strategy::run()
// returns gives a RemoteValue<PerReplica<Tensor>>, which does not convert to a RemoteValue<Tensor>.
//
// A RemoteValue is a handle: copies refer to the same result. Thread-safe.
template <typename T = Tensor>
class RemoteValue {
 public:
  using Value = T;

  RemoteValueStatus status() const { return internal::status_of(*result_); }
  // Waits until the function has run, and returns its result. Throws what the function threw, or
  // Cancelled if it will never run.
  T fetch() const;
  T get() const { return fetch(); }

 private:
  friend struct internal::Access;
  RemoteValue(std::shared_ptr<const internal::RemoteResult> result,
              std::shared_ptr<const void> structure)
      : result_(std::move(result)), structure_(std::move(structure)) {}
  auto with_tensors(const std::vector<Tensor>& tensors) const;

  std::shared_ptr<const internal::RemoteResult> result_;
  std::shared_ptr<const void> structure_;  // a T, as it was when the function was traced
};

// PerWorkerValues holds a result for each worker. As an argument of ClusterCoordinator::schedule it
// becomes the result of the worker that runs the function. It is a handle, as RemoteValue is.
template <typename T = Tensor>
class PerWorkerValues {
 public:
  using Value = T;

  // Takes one value for each worker, in their order. Using another number throws InvalidArgument.
  explicit PerWorkerValues(std::vector<RemoteValue<T>> values) : values_(std::move(values)) {}

  size_t size() const { return values_.size(); }
  // The value of one worker. Throws std::out_of_range if the worker does not exist.
  const RemoteValue<T>& operator[](size_t worker) const { return values_.at(worker); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<RemoteValue<T>> values_;
};

// PerWorkerIterator stands for an iterator on each worker. As an argument of
// ClusterCoordinator::schedule it becomes the Iterator of the worker that runs the function.
class PerWorkerIterator {
 public:
  // Throws Unimplemented, because only workers take elements.
  [[noreturn]] data::Element next() const;

 private:
  friend struct internal::Access;
  explicit PerWorkerIterator(data::Iterator stand_in) : stand_in_(std::move(stand_in)) {}
  data::Iterator stand_in_;
};

// PerWorkerVariable is a variable of which each worker has its own copy. Nothing synchronizes,
// trains or saves the copies.
//
//   PerWorkerVariable steps(Tensor(0), "steps");
//   coordinator.schedule([&] { Variable(steps).assign_add(1); });
//   const std::vector<Tensor> all = coordinator.read_all(steps);
//
// Functions that workers run use it as a Variable; any other use throws FailedPrecondition. A
// worker that is restarted begins with the initial value again.
class PerWorkerVariable {
 public:
  explicit PerWorkerVariable(const Tensor& initial_value,
                             const std::string& name = "PerWorkerVariable");
  operator Variable() const { return variable_; }
  const Variable& variable() const { return variable_; }

 private:
  Variable variable_;
};

// PerWorkerDataset is a dataset for each worker. ClusterCoordinator::create_per_worker_dataset()
// returns one. Cheap to copy.
//
//   PerWorkerIterator batches = coordinator.create_per_worker_dataset(dataset).iterator();
//   const auto step = function([](Iterator it) { return mean(it.next().tensor()); });
//   const auto result = coordinator.schedule(step, batches);
class PerWorkerDataset {
 public:
  // Returns new iterators, which begin at the first element. Each worker makes its own when it
  // first needs it. Throws FailedPrecondition in traced code.
  PerWorkerIterator iterator() const;
  // Describes one worker's elements. If only an element shows what they are, the first worker's
  // dataset makes one in this process, once. Throws FailedPrecondition if the dataset is empty, and
  // for a generator that does not declare its elements, because that element would be lost.
  data::ElementSpec element_spec() const;

 private:
  friend struct internal::Access;
  explicit PerWorkerDataset(std::shared_ptr<const internal::PerWorkerData> data)
      : data_(std::move(data)) {}
  std::shared_ptr<const internal::PerWorkerData> data_;
};

// ClusterCoordinatorOptions configures a ClusterCoordinator.
struct ClusterCoordinatorOptions {
  // How many functions may wait for a worker. Empty: no limit; 0 or less, as in TensorFlow, is the
  // same as empty.
  std::optional<int64_t> queue_capacity = 262'144;
  // How many functions run on one worker at the same time.
  int functions_per_worker = 2;
  // Whether results may be arguments of later functions. Workers then keep their results as long as
  // a RemoteValue refers to them, and send them to each other.
  bool remote_arguments = false;
  // How long a function may take before it fails with DeadlineExceeded. Empty: no limit; 0
  // is the same as empty.
  std::optional<std::chrono::milliseconds> function_timeout = std::nullopt;
  // How long a lost worker may stay away before that is an error.
  std::chrono::milliseconds worker_recovery_timeout{3'600'000};
  // How many failures of one parameter server, and how many timeouts, are an error. Fewer are
  // forgiven, and forgotten after a minute without a new one. A failure that several functions meet
  // at the same time counts once. The end of a server's process is an error at once. If not given,
  // the numbers come from TF_COORDINATOR_IGNORE_TRANSIENT_PS_FAILURES (3 if not set) and
  // TF_COORDINATOR_IGNORE_TRANSIENT_TIMEOUTS (a tenth of the workers).
  std::optional<int> ps_failures_until_error = std::nullopt;
  std::optional<int> timeouts_until_error = std::nullopt;
  // Restores the values of the variables, for example from the last checkpoint, after a parameter
  // server was started again without them. Without this function that is an error.
  std::function<void()> restore = {};
  int restore_limit = 3;  // restores without a healthy minute between them
  // How long a parameter server may stay away if `restore` is given.
  std::chrono::milliseconds ps_recovery_timeout{60'000};
};

// ClusterCoordinator runs functions on the workers of a ParameterServerStrategy.
//
//   coordinator.schedule(function([&] { w.assign_add(1.f); }));
//   const auto value = coordinator.schedule(function([&] { return w.read_value(); }));
//   coordinator.join();
//   const Tensor now = value.fetch();
//
// A ClusterCoordinator is a handle: all coordinators of one strategy are the same, and the options
// of the first apply. It must not outlive the strategy. Thread-safe.
//
// Each function runs at least once on some worker. If the worker is lost, the function runs again
// on another one; changes that it had already made on parameter servers are not made twice.
//
// If a function fails, the next schedule(), join() or done() stops the running functions, cancels
// the waiting ones, and throws the first error. After that no function runs, and the coordinator
// can be used again. If a worker is lost, the others go on; when it returns, it gets new iterators.
// The same three calls throw Unavailable if a parameter server stays away, or returns without its
// variables while no `restore` is given.
//
// Call join() before the last handle ends. The end of the last handle waits for nothing: it cancels
// the functions that wait or run. If there are such functions, or no call has thrown the first
// error, the log says so, except while an exception unwinds the stack.
class ClusterCoordinator {
 public:
  // Throws InvalidArgument if `strategy` is not a ParameterServerStrategy, or if function_timeout
  // is negative.
  explicit ClusterCoordinator(Strategy& strategy, const ClusterCoordinatorOptions& options = {});

  // Queues a call of `f` for some worker, and returns at once unless the queue is full. A traced
  // function (cohort::function) is sent to each worker once; any other callable is traced at each
  // call. A per-worker iterator or value among the arguments becomes that of the worker that runs
  // the call. The call waits for RemoteValues among its arguments, and fails if their functions
  // fail. Throws InvalidArgument for a RemoteValue without `remote_arguments`, and
  // FailedPrecondition, which names the cause, if the function or an argument cannot be sent. An
  // Iterator of this process cannot: each worker would read all of its data from the beginning.
  template <typename F, typename... Args>
  auto schedule(const F& f, const Args&... args);
  // The same on this worker and no other.
  template <typename F, typename... Args>
  auto schedule_on(int worker, const F& f, const Args&... args);
  // The same on every worker; returns one result per worker.
  template <typename F, typename... Args>
  auto run_on_each_worker(const F& f, const Args&... args);
  // Schedules the function that the workers' program has registered under `name`, see
  // cohort/native_function.h.
  RemoteValue<std::vector<Tensor>> schedule_native(std::string_view name,
                                                   const std::vector<Tensor>& inputs,
                                                   const std::vector<TensorSpec>& outputs);

  // Returns when every scheduled function has run. Meanwhile schedule() waits in other threads.
  void join();
  // Reports whether no function waits or runs.
  bool done();

  // Waits for all RemoteValues in a structure and returns it with their values; other leaves stay.
  template <typename T>
  auto fetch(const T& values) const;
  void fetch(const RemoteValue<void>& nothing) const { nothing.fetch(); }

  // Creates a dataset for each worker. `make` is called once for each worker, also for a worker
  // that is added later; Strategy::distribute_datasets_from_function() inside it gets the
  // InputContext of that worker. The other two forms take a dataset that each worker iterates over,
  // or a dataset that this strategy has distributed. Throws InvalidArgument if `make` creates
  // variables, and FailedPrecondition if a dataset cannot be sent.
  template <std::invocable F>
  PerWorkerDataset create_per_worker_dataset(const F& make);
  PerWorkerDataset create_per_worker_dataset(const data::Dataset& dataset);
  PerWorkerDataset create_per_worker_dataset(const DistributedDataset& dataset);

  // The values of a variable on all workers, in the order of the workers.
  std::vector<Tensor> read_all(const PerWorkerVariable& variable);

  // Whether both are handles of the same coordinator.
  friend bool operator==(const ClusterCoordinator&, const ClusterCoordinator&) = default;

  int num_workers() const;
  // Adds a worker that was not in the cluster, and returns its number. `address` is the "host:port"
  // of a server that was started with `joins_later`, and whose own cluster has it as the worker of
  // this number. Functions with PerWorkerValues that were made before do not run on the new worker.
  int add_worker(const std::string& address);
  // Shuts down the servers of all tasks, and with them this coordinator. Cancels functions that
  // wait or run.
  void shutdown_cluster();

 private:
  template <typename F, typename... Args>
  auto schedule_at(std::optional<int> worker, const F& f, const Args&... args);

  std::shared_ptr<internal::ClusterCoordinatorState> state_;
};

}  // namespace cohort

#include "cohort/internal/coordinator_inl.h"  // IWYU pragma: export
