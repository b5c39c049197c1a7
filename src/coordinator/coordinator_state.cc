#include "coordinator/coordinator_state.h"

#include <fmt/format.h>

#include <condition_variable>

#include "base/log.h"
#include "base/raise.h"
#include "cluster/ask_server.h"
#include "coordinator/shipping.h"

namespace cohort::internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetryPause{200};
constexpr std::chrono::milliseconds kShutdownLimit{5000};

FailureLimits limits_of(const ClusterCoordinatorOptions& options, int workers) {
  FailureLimits limits = FailureLimits::of(workers);
  if (options.ps_failures_until_error) limits.ps_failures = *options.ps_failures_until_error;
  if (options.timeouts_until_error) limits.timeouts = *options.timeouts_until_error;
  return limits;
}

int64_t now_as_number() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Status lost_server(const std::string& ps, const Status& cause) {
  return {.code = Code::Unavailable,
          .message = fmt::format("[Coordinator] parameter server {} is lost with its variables; "
                                 "start this program again and restore a checkpoint, or give "
                                 "ClusterCoordinatorOptions a `restore`",
                                 ps),
          .origin = ps,
          .cause = std::make_shared<const Status>(cause)};
}

// Until `stop`, at most.
void pause_for(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, time, [] { return false; });
}

std::vector<std::unique_ptr<WorkerChannel>> make_channels(
    const ParameterServerExtended& extended, const ClusterCoordinatorOptions& options) {
  std::vector<std::unique_ptr<WorkerChannel>> channels;
  const ClusterSpec& cluster = extended.cluster();
  for (const int task : cluster.task_indices("worker")) {
    channels.push_back(std::make_unique<WorkerChannel>(WorkerChannelOptions{
        .worker = static_cast<int>(channels.size()),
        .home = DeviceName::parse(fmt::format("/job:worker/replica:0/task:{}/device:CPU:0", task)),
        .address = cluster.task_address("worker", task),
        .container = extended.servers().container(),
        .credentials = extended.options().credentials,
        .function_timeout = options.function_timeout}));
  }
  return channels;
}

}  // namespace

ClusterCoordinatorState::ClusterCoordinatorState(Strategy& strategy,
                                                 ParameterServerExtended& extended,
                                                 ClusterCoordinatorOptions options)
    : strategy_(strategy),
      extended_(extended),
      options_(std::move(options)),
      number_(now_as_number()),
      failures_(limits_of(options_, extended.cluster().num_tasks("worker"))),
      channels_(make_channels(extended, options_)),
      queue_(options_.queue_capacity, static_cast<int>(channels_.size()), [this] {
        for (const auto& channel : channels_) channel->cancel();
      }) {
  for (const auto& channel : channels_) {
    for (int i = 0; i < std::max(1, options_.functions_per_worker); ++i) {
      threads_.emplace_back(
          fmt::format("worker{}", channel->worker()),
          [this, &channel = *channel](const std::stop_token& stop) { serve(channel, stop); });
    }
  }
}

ClusterCoordinatorState::~ClusterCoordinatorState() {
  stop({.code = Code::Cancelled, .message = "[Coordinator] it has ended"});
}

void ClusterCoordinatorState::stop(const Status& why) {
  queue_.stop(why);
  for (Thread& thread : threads_) thread.request_stop();
  for (Thread& thread : threads_) thread.join();
}

TracedCall ClusterCoordinatorState::traced(const std::function<TracedCall()>& trace) {
  const StrategyScope inside(strategy_);
  const TracingForWorkers tracing;
  TracedCall call = trace();
  const std::lock_guard lock(mutex_);
  if (checked_.contains(call.trace.get())) return call;
  check_can_travel(call.trace->function(), call.arguments);
  checked_.insert(call.trace.get());
  traces_.push_back(call.trace);
  return call;
}

std::shared_ptr<RemoteResult> ClusterCoordinatorState::schedule(
    std::optional<int> worker, const std::function<TracedCall()>& trace,
    std::shared_ptr<const void>& structure) {
  if (worker && (*worker < 0 || *worker >= num_workers())) {
    raise(Code::InvalidArgument, "[Coordinator] there is no worker {}; there are {}", *worker,
          num_workers());
  }
  TracedCall call = traced(trace);
  structure = call.trace->structure();
  const auto closure = std::make_shared<Closure>(Closure{.trace = std::move(call.trace),
                                                         .arguments = std::move(call.arguments),
                                                         .result = std::make_shared<RemoteResult>(),
                                                         .worker = worker});
  const std::shared_ptr<RemoteResult> result = closure->result;
  queue_.add(closure);
  return result;
}

void ClusterCoordinatorState::shut_down() {
  stop({.code = Code::Cancelled, .message = "[Coordinator] the cluster was shut down"});
  const ClusterSpec& cluster = extended_.cluster();
  for (const std::string job : {"worker", "ps"}) {
    for (const int task : cluster.task_indices(job)) {
      const Status status = capture_status([&] {
        shut_down_server(cluster.task_address(job, task), extended_.options().credentials,
                         kShutdownLimit);
      });
      if (!status.ok()) {
        log_warning("[Coordinator] shutting down {} {}: {}", job, task, status.message);
      }
    }
  }
}

void ClusterCoordinatorState::serve(WorkerChannel& channel, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!connect(channel, stop)) continue;
    const ClosurePtr closure = queue_.take(channel.worker(), stop);
    if (closure) run(channel, closure);
  }
}

bool ClusterCoordinatorState::connect(WorkerChannel& channel, const std::stop_token& stop) {
  if (channel.is_open()) return true;
  const Status status = capture_status([&] { channel.open(); });
  Clock::time_point since;
  {
    const std::lock_guard lock(mutex_);
    if (status.ok()) {
      lost_since_.erase(channel.worker());
      return true;
    }
    since = lost_since_.try_emplace(channel.worker(), Clock::now()).first->second;
  }
  if (Clock::now() - since > options_.worker_recovery_timeout) {
    queue_.report(
        {.code = Code::Unavailable,
         .message = fmt::format("[Coordinator] worker {} at {} is away for more than {} "
                                "s: {}",
                                channel.task(), channel.address(),
                                options_.worker_recovery_timeout.count() / 1000, status.message)});
  }
  log_debug("[Coordinator] worker {} does not answer: {}", channel.task(), status.message);
  pause_for(kRetryPause, stop);
  return false;
}

Tensor ClusterCoordinatorState::claim_of(const Closure& closure) const {
  return Tensor({number_.load(), closure.number, queue_.all_done_below()});
}

void ClusterCoordinatorState::run(WorkerChannel& channel, const ClosurePtr& closure) {
  const uint64_t generation = channel.generation();
  std::vector<Tensor> results;
  const Status status =
      capture_status([&] { results = channel.run(*closure, claim_of(*closure)); });
  if (status.ok()) {
    queue_.succeed(closure, std::move(results));
  } else {
    handle(channel, closure, status, generation);
  }
}

void ClusterCoordinatorState::handle(WorkerChannel& channel, const ClosurePtr& closure,
                                     const Status& status, uint64_t generation) {
  if (queue_.cancelling()) return queue_.fail(closure, status);
  switch (failures_.classify(status)) {
    case FailureKind::Function:
      // A variable without value may be one that a server had before it was restarted.
      if (status.code == Code::FailedPrecondition &&
          !extended_.servers().find_restarted().empty()) {
        return handle_lost_ps(channel, closure, status, generation);
      }
      return queue_.fail(closure, status);
    case FailureKind::Transient:
      return queue_.put_back(closure);
    case FailureKind::Worker:
      if (channel.drop(generation, true)) {
        log_warning("[Coordinator] worker {} is lost, its functions run elsewhere: {}",
                    channel.task(), status.message);
      }
      return queue_.put_back(closure);
    case FailureKind::ParameterServer:
      return handle_lost_ps(channel, closure, status, generation);
  }
}

void ClusterCoordinatorState::handle_lost_ps(WorkerChannel& channel, const ClosurePtr& closure,
                                             const Status& status, uint64_t generation) {
  using Condition = ParameterServers::Condition;
  std::string ps = parameter_server_in(status);
  if (ps.empty()) ps = extended_.servers().find_restarted();
  channel.drop(generation, false);
  const Condition condition = extended_.servers().examine(ps);
  log_warning("[Coordinator] {}: {}", ps, status.message);
  if (condition != Condition::Sound && options_.restore) {
    queue_.pause();
    queue_.put_back(closure);
    const Status recovery = capture_status([&] { recover(ps, status); });
    if (!recovery.ok()) queue_.report(recovery);
    queue_.resume();
  } else if (condition == Condition::Restarted || failures_.is_lost(ps)) {
    queue_.fail(closure, lost_server(ps, status));
  } else {
    queue_.put_back(closure);
  }
}

void ClusterCoordinatorState::recover(const std::string& ps, const Status& why) {
  using Condition = ParameterServers::Condition;
  const std::lock_guard one_at_a_time(recovering_);
  const auto deadline = Clock::now() + options_.ps_recovery_timeout;
  Condition condition = extended_.servers().examine(ps);
  while (condition == Condition::Unreachable && Clock::now() < deadline && !queue_.cancelling()) {
    std::this_thread::sleep_for(kRetryPause);
    condition = extended_.servers().examine(ps);
  }
  if (condition == Condition::Sound) return;  // somebody else did it, or only the network failed
  if (condition == Condition::Unreachable || ++restores_ > options_.restore_limit) {
    throw Error(lost_server(ps, why));
  }
  restore(ps);
}

void ClusterCoordinatorState::restore(const std::string& ps) {
  queue_.end_running();
  log_warning(
      "[Coordinator] parameter server {} was restarted without its variables; they are restored, "
      "and what functions up to number {} have changed since they were saved is lost",
      ps, queue_.all_done_below() - 1);
  for (const auto& channel : channels_) channel->drop(channel->generation(), false);
  extended_.servers().accept(ps);
  number_ = now_as_number();  // what was applied before is undone: let it be applied again
  const TracingForWorkers quiet;
  options_.restore();
}

}  // namespace cohort::internal
