#include "coordinator/cluster_coordinator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/time_limit.h"
#include "base/waiting.h"
#include "cluster/ask_server.h"
#include "coordinator/lower_to_worker.h"
#include "coordinator/per_worker_data.h"
#include "distribute/input/distributed_input.h"

namespace cohort {
namespace internal {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kShutdownLimit{5000};

FailureLimits limits_of(const ClusterCoordinatorOptions& options, int workers) {
  FailureLimits limits = FailureLimits::of(workers);
  if (options.ps_failures_until_error) limits.ps_failures = *options.ps_failures_until_error;
  if (options.timeouts_until_error) limits.timeouts = *options.timeouts_until_error;
  return limits;
}

std::string counted(int64_t functions) {
  return fmt::format("{} scheduled function{}", functions, functions == 1 ? "" : "s");
}

void log_leftover(const ClosureQueue::Leftover& left) {
  std::vector<std::string> parts;
  if (left.functions > 0) parts.push_back(counted(left.functions) + " did not finish");
  if (left.gradients > 0) {
    parts.push_back(fmt::format("the gradients of {} were not applied", counted(left.gradients)));
  }
  if (left.error) parts.emplace_back("no call threw the first error");
  if (parts.empty()) return;
  const std::string what = fmt::format("{}", fmt::join(parts, ", "));
  if (!left.error) {
    log_warning(
        "[Coordinator] the coordinator ended without join(): {}; call join() before the "
        "ClusterCoordinator ends",
        what);
    return;
  }
  log_error(
      "[Coordinator] the coordinator ended without join(): {}; call join() before the "
      "ClusterCoordinator ends. The error: {}",
      what, left.error->to_string());
}

double seconds_from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::max(0., std::strtod(text, nullptr));
}

}  // namespace

std::chrono::milliseconds start_delay(int worker) {
  const double most = seconds_from_environment("TF_COORDINATOR_SCHEDULE_START_DELAY_MAX");
  double seconds = worker * seconds_from_environment("TF_COORDINATOR_SCHEDULE_START_DELAY");
  if (most > 0) seconds = std::min(seconds, most);
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * std::min(seconds, 3600.)));
}

ClusterCoordinatorState::ClusterCoordinatorState(Strategy& strategy,
                                                 ParameterServerExtended& extended,
                                                 ClusterCoordinatorOptions options)
    : strategy_(strategy),
      extended_(extended),
      options_(std::move(options)),
      first_number_(chief_number()),
      number_(first_number_),
      failures_(limits_of(options_, extended.cluster().num_tasks("worker"))),
      queue_(options_.queue_capacity, extended.cluster().num_tasks("worker"),
             [this] {
               for (const auto& channel : channels()) channel->cancel();
             },
             {.size = extended.options().sync ? extended.cluster().num_tasks("worker") : 0,
              .update = [this](const Updates& all, int64_t number) { update(all, number); },
              .update_rest = [this](const Updates& all,
                                    int64_t number) { update_rest(all, number); }}) {
  const ClusterSpec& cluster = extended_.cluster();
  for (const int task : cluster.task_indices("worker")) {
    add_channel(task, cluster.task_address("worker", task));
  }
  for (const auto& channel : channels()) start_threads(channel);
}

void ClusterCoordinatorState::add_channel(int task, const std::string& address) {
  const std::lock_guard lock(channels_mutex_);
  workers_[task] = address;
  channels_.push_back(std::make_shared<WorkerChannel>(WorkerChannelOptions{
      .worker = static_cast<int>(channels_.size()),
      .home = DeviceName::parse(fmt::format("/job:worker/replica:0/task:{}/device:CPU:0", task)),
      .address = address,
      .container = extended_.servers().container(),
      .chief = extended_.servers().chief(),
      .credentials = extended_.options().credentials,
      .function_timeout = options_.function_timeout,
      .keep_results = options_.remote_arguments,
      .find_kept = [this](const KeptOn& kept) {
        return channels()[static_cast<size_t>(kept.worker)]->home_in(kept.state);
      }}));
}

void ClusterCoordinatorState::start_threads(const std::shared_ptr<WorkerChannel>& channel) {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < std::max(1, options_.functions_per_worker); ++i) {
    threads_.emplace_back(fmt::format("worker_{}", channel->worker()),
                          [this, channel](const std::stop_token& stop) { serve(*channel, stop); });
  }
}

int ClusterCoordinatorState::add_worker(const std::string& address) {
  int task = 0;
  {
    const std::lock_guard lock(channels_mutex_);
    task = workers_.rbegin()->first + 1;
  }
  queue_.add_worker();
  add_channel(task, address);
  start_threads(channels().back());
  return channels().back()->worker();
}

// Without the log, a program that forgets join() would lose its last steps or its error silently.
ClusterCoordinatorState::~ClusterCoordinatorState() {
  const ClosureQueue::Leftover left =
      stop({.code = Code::Cancelled, .message = "[Coordinator] the coordinator has ended"});
  for (const auto& channel : channels()) channel->clear();
  if (std::uncaught_exceptions() == exceptions_before_) log_leftover(left);
}

ClosureQueue::Leftover ClusterCoordinatorState::stop(const Status& why) {
  ClosureQueue::Leftover left = queue_.stop(why);
  std::vector<Thread> ending;
  {
    const std::lock_guard lock(mutex_);
    ending = std::move(threads_);
    threads_.clear();
  }
  for (Thread& thread : ending) thread.request_stop();
  for (Thread& thread : ending) thread.join();
  return left;
}

ClosurePtr ClusterCoordinatorState::traced(const std::function<TracedCall()>& trace,
                                           const RemoteArguments::Impl& remote) {
  const StrategyScope inside(strategy_);
  const TracingForWorkers tracing;
  TracedCall call = trace();
  remote.check(num_workers(), options_.remote_arguments);
  const std::lock_guard lock(mutex_);
  const GraphFunction& function = call.trace->function();
  check_arguments(function, call.arguments);
  if (!checked_.contains(call.trace)) {
    std::erase_if(checked_, [](const auto& known) { return known.expired(); });
    check_serializable(function, call.arguments);
    checked_.insert(call.trace);
  }
  return std::make_shared<Closure>(
      Closure{.trace = call.trace,
              .arguments = std::move(call.arguments),
              .remote = {},
              .result = std::make_shared<RemoteResult>(result_specs(function)),
              .worker = std::nullopt,
              .updates = GroupUpdates::of(function),
              .draw_number = function.calls().fetch_add(1)});
}

std::shared_ptr<RemoteResult> ClusterCoordinatorState::schedule(
    std::optional<int> worker, const std::function<TracedCall()>& trace,
    const RemoteArguments::Impl& remote, std::shared_ptr<const void>& structure) {
  if (worker && (*worker < 0 || *worker >= num_workers())) {
    raise(Code::InvalidArgument,
          "[Coordinator] worker {} does not exist; the cluster has {} workers", *worker,
          num_workers());
  }
  const ClosurePtr closure = traced(trace, remote);
  for (const Tensor& argument : closure->arguments) {
    if (argument.is_symbolic()) closure->remote.resize(closure->arguments.size());
  }
  for (size_t i = 0; i < closure->remote.size(); ++i) {
    closure->remote[i] = remote.find(closure->arguments[i]);
  }
  closure->worker = worker;
  structure = closure->trace->structure();
  const std::shared_ptr<RemoteResult> result = closure->result;
  queue_.add(closure);
  return result;
}

void ClusterCoordinatorState::shut_down() {
  stop({.code = Code::Cancelled, .message = "[Coordinator] the cluster was shut down"});
  if (extended_.is_shut_down.exchange(true)) return;
  // Sessions end before their servers, because a session logs warnings about a lost server.
  for (const auto& channel : channels()) channel->drop(channel->generation(), false);
  extended_.servers().close_sessions();
  const ClusterSpec& cluster = extended_.cluster();
  std::vector<std::string> addresses;
  for (const auto& channel : channels()) addresses.push_back(channel->address());
  for (const int task : cluster.task_indices("ps")) {
    addresses.push_back(cluster.task_address("ps", task));
  }
  for (const std::string& address : addresses) {
    const Status status = capture_status(
        [&] { shut_down_server(address, extended_.options().credentials, kShutdownLimit); });
    if (!status.ok()) {
      log_warning("[Coordinator] the server at {} could not be shut down: {}", address,
                  status.message);
    }
  }
}

void ClusterCoordinatorState::serve(WorkerChannel& channel, const std::stop_token& stop) {
  pause_unless_stopped(start_delay(channel.worker()), stop);
  while (!stop.stop_requested()) {
    if (!connect(channel, stop)) continue;
    const ClosurePtr closure = queue_.take(channel.worker(), stop);
    if (closure) run(channel, closure);
  }
}

bool ClusterCoordinatorState::connect(WorkerChannel& channel, const std::stop_token& stop) {
  if (channel.is_open()) return true;
  const Status status = capture_status([&] { channel.open(); });
  const auto workers = static_cast<size_t>(num_workers());
  steady_clock::time_point since;
  bool all_lost = false;
  {
    const std::lock_guard lock(mutex_);
    if (status.ok()) {
      lost_since_.erase(channel.worker());
      return true;
    }
    since = lost_since_.try_emplace(channel.worker(), steady_clock::now()).first->second;
    all_lost = lost_since_.size() == workers;
  }
  if (steady_clock::now() > deadline_after(options_.worker_recovery_timeout, since)) {
    queue_.report(
        {.code = Code::Unavailable,
         .message = fmt::format(
             "[Coordinator] worker {} at {} has been away for more than {} s: {}", channel.task(),
             channel.address(), options_.worker_recovery_timeout.count() / 1000, status.message)});
  }
  if (all_lost && EndSignals::received() != 0) {
    queue_.report({.code = Code::Unavailable,
                   .message = fmt::format("[Coordinator] all workers are lost; worker {} at {}: {}",
                                          channel.task(), channel.address(), status.message)});
  }
  log_debug("[Coordinator] worker {} does not answer: {}", channel.task(), status.message);
  pause_unless_stopped(kRetryPause, stop);
  return false;
}

void ClusterCoordinatorState::run(WorkerChannel& channel, const ClosurePtr& closure) {
  const Attempt attempt{.generation = channel.generation(), .begun = steady_clock::now()};
  Results results;
  const int64_t call = closure->number;
  Status status = capture_status([&] {
    results = channel.run(*closure,
                          {.servers = call_id(call, number_), .own = call_id(call, first_number_)});
  });
  if (status.ok()) status = queue_.succeed(closure, std::move(results));
  if (!status.ok()) handle(channel, closure, status, attempt);
}

void ClusterCoordinatorState::update(const Updates& updates, int64_t number) {
  for (const GroupUpdatePtr& update : updates) {
    const Tensor id = call_id(number++, number_);
    Status status = capture_status([&] { extended_.servers().make(*update, id); });
    if (status.ok()) continue;
    if (parameter_server_in(status).empty()) {
      status.message = fmt::format("From {}: {}", update->home.split().first, status.message);
    }
    throw Error(status);
  }
}

namespace {

std::shared_ptr<ClusterCoordinatorState> state_of(Strategy& strategy,
                                                  ClusterCoordinatorOptions options) {
  auto* workers = dynamic_cast<RemoteWorkers*>(&strategy.extended());
  options.function_timeout =
      given_time_limit("ClusterCoordinator", "function_timeout", options.function_timeout);
  // As in TensorFlow, a capacity that is not positive means no limit.
  if (options.queue_capacity.value_or(0) <= 0) options.queue_capacity = std::nullopt;
  if (workers != nullptr) return workers->coordinator_state(options);
  raise(Code::InvalidArgument,
        "[ClusterCoordinator] needs a ParameterServerStrategy, got a {}; start the program with: "
        "cohort run --strategy parameter_server --workers 2 --ps 1 ./train",
        strategy.extended().name());
}

}  // namespace

std::shared_ptr<ClusterCoordinatorState> ParameterServerExtended::coordinator_state(
    const ClusterCoordinatorOptions& options) {
  const std::lock_guard lock(coordinator_mutex_);
  std::shared_ptr<ClusterCoordinatorState> state = coordinator_.lock();
  if (state) return state;
  state = std::make_shared<ClusterCoordinatorState>(strategy(), *this, options);
  coordinator_ = state;
  return state;
}
}  // namespace internal

ClusterCoordinator::ClusterCoordinator(Strategy& strategy, const ClusterCoordinatorOptions& options)
    : state_(internal::state_of(strategy, options)) {}

std::shared_ptr<internal::RemoteResult> internal::enqueue(ClusterCoordinatorState& state,
                                                          std::optional<int> worker,
                                                          const std::function<TracedCall()>& trace,
                                                          const RemoteArguments& remote,
                                                          std::shared_ptr<const void>& structure) {
  return state.schedule(worker, trace, remote.impl(), structure);
}

RemoteValue<std::vector<Tensor>> ClusterCoordinator::schedule_native(
    std::string_view name, const std::vector<Tensor>& inputs,
    const std::vector<TensorSpec>& outputs) {
  return schedule(
      function([&](const std::vector<Tensor>& given) { return call_native(name, given, outputs); },
               {.name = std::string(name)}),
      inputs);
}

void ClusterCoordinator::join() { state_->join(); }
bool ClusterCoordinator::done() { return state_->done(); }
int ClusterCoordinator::num_workers() const { return state_->num_workers(); }
void ClusterCoordinator::shutdown_cluster() { state_->shut_down(); }
int ClusterCoordinator::add_worker(const std::string& address) {
  return state_->add_worker(address);
}

std::vector<Tensor> ClusterCoordinator::read_all(const PerWorkerVariable& variable) {
  return fetch(run_on_each_worker([&] { return variable.variable().read_value({}); }));
}

PerWorkerDataset internal::make_per_worker(int num_workers,
                                           const std::function<PerWorkerSpec()>& make) {
  return Access::make<PerWorkerDataset>(std::make_shared<const PerWorkerData>(num_workers, make));
}

PerWorkerDataset ClusterCoordinator::create_per_worker_dataset(const data::Dataset& dataset) {
  return internal::make_per_worker(num_workers(),
                                   [dataset] { return internal::PerWorkerSpec(dataset); });
}

PerWorkerDataset ClusterCoordinator::create_per_worker_dataset(const DistributedDataset& dataset) {
  return internal::make_per_worker(num_workers(), [dataset] {
    const auto& input = internal::Access::impl(dataset);
    return internal::PerWorkerSpec(
        input->rebuild ? internal::Access::make<DistributedDataset>(input->rebuild()) : dataset);
  });
}

}  // namespace cohort
