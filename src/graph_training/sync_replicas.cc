#include "cohort/sync_replicas.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/site_scope.h"
#include "base/time_limit.h"
#include "base/waiting.h"
#include "cohort/ops.h"
#include "graph_training/sync_replicas_graph.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Event = SyncMembership::Event;

namespace {

constexpr std::chrono::hours kLongerThanAnyRun(24 * 365);
constexpr milliseconds kBetweenHolds(1000);
constexpr milliseconds kBetweenLooks(500);

}  // namespace

// What a MonitoredSession does for synchronous training: prepares its worker, runs the chief's
// threads, and leaves at the end, also when the loop ends with an error.
class SyncReplicasHook : public SessionRunHook {
 public:
  struct Limits {
    TimeLimit step_timeout;
    std::chrono::milliseconds idle_limit;
  };
  SyncReplicasHook(std::shared_ptr<SyncReplicas> replicas, bool is_chief, Tensor init_tokens,
                   Tensor restart_tokens, Limits limits)
      : replicas_(std::move(replicas)),
        is_chief_(is_chief),
        init_tokens_(std::move(init_tokens)),
        restart_tokens_(std::move(restart_tokens)),
        limits_(limits) {}

  void after_create_session(Session& session, Coordinator& coordinator) override {
    coordinator_ = &coordinator;
    const std::vector<std::string> missing =
        session.run(replicas_->ready_op).to_vector<std::string>();
    if (!missing.empty()) {
      raise(Code::FailedPrecondition,
            "[SyncReplicas] the model is not ready for the local step, not initialised: {}",
            fmt::join(missing, ", "));
    }
    if (is_chief_) {
      start_chief(session, coordinator);
    } else {
      session.run(replicas_->local_step_init_op);
    }
    const bool was_absent = left_.exchange(false);
    if (was_absent || replicas_->worker != SyncMembership::kAnonymous) {
      replicas_->membership.mark(session, replicas_->worker, Event::Join);
    }
    // A loop that ends with an error must not keep the other workers waiting either. The session is
    // closed after this thread has ended.
    coordinator.start_thread("sync_replicas/leave", [this, &session, &coordinator] {
      coordinator.wait_for_stop();
      leave(session);
      release(session);
    });
    if (!replicas_->presence) return;
    coordinator.start_thread("sync_replicas/present", [this, &session, &coordinator] {
      stay_present(session, coordinator);
    });
    // If this worker were lost before its presence is held, no task would notice.
    session.run(replicas_->presence->held, {}, {.timeout = limits_.step_timeout});
  }
  SessionRunArgs before_run(SessionRunContext&) override {
    return {.options = {.timeout = limits_.step_timeout}};
  }
  void end(Session& session) override {
    leave(session);
    if (is_chief_) serve_others(session);
  }

 private:
  // A register that has a value belongs to an earlier chief. That chief may have been lost between
  // taking gradients and giving out tokens, so all workers get tokens again. At most one batch of
  // each worker is wasted.
  void start_chief(Session& session, Coordinator& coordinator) {
    const bool restarted = session.run(replicas_->membership.is_initialized()).to<bool>();
    session.run(replicas_->chief_init_op);
    session.run(restarted ? restart_tokens_ : init_tokens_);
    replicas_->chief_runner->create_threads(session, coordinator);
    // A run that waits for changes for a long time would look like a stall, so it is ended from
    // time to time.
    coordinator.start_thread("sync_replicas/look", [this, &session, &coordinator] {
      while (!coordinator.wait_for_stop(kBetweenLooks)) {
        (void)capture_status([&] { session.run(replicas_->membership.poke_op()); });
      }
    });
  }
  void serve_others(Session& session) {
    Backoff backoff(milliseconds(5), milliseconds(500));
    int64_t last_step = -1;
    auto deadline = deadline_after(limits_.idle_limit);
    while (true) {
      if (coordinator_->should_stop()) return;  // the thread that updates has ended
      const std::vector<Tensor> now = session.run({replicas_->num_live, replicas_->step_now});
      if (now[0].to<int64_t>() <= 0) break;
      if (now[1].to<int64_t>() != last_step) deadline = deadline_after(limits_.idle_limit);
      last_step = now[1].to<int64_t>();
      if (steady_clock::now() > deadline) {
        log_warning(
            "[SyncReplicas] the chief ends although {} workers have not left: they made no step in "
            "{} ms",
            now[0].to<int64_t>(), limits_.idle_limit.count());
        return;
      }
      backoff.wait();
    }
    session.run(replicas_->membership.reset_op());
  }
  // Lets the other workers go on if this process is lost. Runs in a thread until the coordinator
  // stops.
  void stay_present(Session& session, Coordinator& coordinator) {
    while (true) {
      const Status end = capture_status(
          [&] { session.run(replicas_->presence->hold, {}, {.timeout = kLongerThanAnyRun}); });
      if (coordinator.should_stop()) return;
      if (end.ok()) continue;  // an earlier session released it
      log_info("[SyncReplicas] cannot stay registered as present: {}", end.to_string());
      if (coordinator.wait_for_stop(kBetweenHolds) || left_) return;
      (void)capture_status(
          [&] { replicas_->membership.mark(session, replicas_->worker, Event::Join); });
    }
  }
  void leave(Session& session) {
    if (left_.exchange(true)) return;
    const Status status = capture_status(
        [&] { left_ = replicas_->membership.mark(session, replicas_->worker, Event::Leave); });
    if (status.ok()) return;
    left_ = false;
    log_info("[SyncReplicas] cannot mark this worker as left: {}", status.to_string());
  }
  void release(Session& session) const {
    if (!replicas_->presence) return;
    (void)capture_status([&] { session.run(replicas_->presence->release); });
  }

  const std::shared_ptr<SyncReplicas> replicas_;
  const bool is_chief_;
  const Tensor init_tokens_;
  const Tensor restart_tokens_;
  const Limits limits_;
  const Coordinator* coordinator_ = nullptr;  // of the current session
  std::atomic<bool> left_{false};
};

}  // namespace internal

namespace {

using internal::raise;
using internal::SyncMembership;
using internal::SyncReplicas;

SyncReplicasOptions checked(SyncReplicasOptions options) {
  const int total = options.total_num_replicas.value_or(options.replicas_to_aggregate);
  if (options.replicas_to_aggregate < 1 || total < 1) {
    raise(Code::InvalidArgument,
          "[SyncReplicas] there must be at least 1 gradient per update and 1 worker, got "
          "replicas_to_aggregate {} and total_num_replicas {}",
          options.replicas_to_aggregate, total);
  }
  const int worker = options.worker_index.value_or(0);
  if (worker < 0 || worker >= total) {
    raise(Code::InvalidArgument, "[SyncReplicas] worker_index {} is not one of {} workers", worker,
          total);
  }
  internal::check_time_limit("SyncReplicas", "step_timeout", options.step_timeout);
  return options;
}

Variable require_step(const std::optional<Variable>& given) {
  const std::optional<Variable> step = given ? given : find_global_step();
  if (step) return *step;
  raise(Code::InvalidArgument,
        "[SyncReplicas] a global step is required to recognise stale gradients; make one with "
        "global_step()");
}

void check_gradients_and_variables(const Gradients& gradients,
                                   const std::vector<Variable>& variables) {
  if (variables.empty()) {
    raise(Code::InvalidArgument, "[SyncReplicas] there must be at least one variable");
  }
  if (gradients.size() != variables.size()) {
    raise(Code::InvalidArgument, "[SyncReplicas] {} gradients for {} variables", gradients.size(),
          variables.size());
  }
  for (const Variable& variable : variables) {
    if (internal::VariableAccess::impl(variable)->first_copy().handle.is_symbolic()) continue;
    raise(Code::InvalidArgument, "[SyncReplicas] variable '{}' does not belong to a graph",
          variable.name());
  }
  if (std::ranges::none_of(gradients, &Gradient::defined)) {
    raise(Code::InvalidArgument, "[SyncReplicas] none of the {} variables has a gradient",
          variables.size());
  }
}

void check_worker(const SyncMembership& membership, int worker) {
  if (worker >= 0 && worker < membership.num_workers()) return;
  raise(Code::InvalidArgument, "[SyncReplicas] there is no worker {} among the {} workers", worker,
        membership.num_workers());
}

}  // namespace

SyncReplicasOptimizer::SyncReplicasOptimizer(optim::Optimizer& optimizer,
                                             const SyncReplicasOptions& options)
    : optimizer_(optimizer), options_(checked(options)) {}

Tensor SyncReplicasOptimizer::apply_gradients(const Gradients& gradients,
                                              const std::vector<Variable>& variables,
                                              std::optional<Variable> global_step, Site site) {
  const internal::SiteScope there(site);
  if (replicas_) {
    raise(Code::FailedPrecondition,
          "[SyncReplicas] gradients were applied already; make another SyncReplicasOptimizer for "
          "each other graph");
  }
  check_gradients_and_variables(gradients, variables);
  replicas_ = std::make_shared<SyncReplicas>(optimizer_, options_, gradients, variables,
                                             require_step(global_step));
  return replicas_->train_op;
}

Tensor SyncReplicasOptimizer::minimize(const Tensor& loss, const std::vector<Variable>& variables,
                                       std::optional<Variable> global_step, Site site) {
  const std::vector<Variable> all = variables.empty() ? trainable_variables() : variables;
  if (all.empty()) check_gradients_and_variables({}, all);
  return apply_gradients(gradients({loss}, all, {}, site), all, global_step, site);
}

const SyncReplicas& SyncReplicasOptimizer::applied(std::string_view what) const {
  if (replicas_) return *replicas_;
  raise(Code::FailedPrecondition,
        "[SyncReplicas] {} exists only after apply_gradients() or minimize(); call one of the two "
        "first",
        what);
}

std::shared_ptr<SessionRunHook> SyncReplicasOptimizer::make_session_run_hook(
    bool is_chief, std::optional<int> num_tokens, Site site) const {
  const internal::SiteScope there(site);
  applied("the hook");
  const Tensor first = get_init_tokens_op(num_tokens, site);
  const internal::ReplicaCounts& counts = replicas_->counts;
  const Tensor again = replicas_->give_tokens(std::max(counts.total, counts.to_aggregate));
  return std::make_shared<internal::SyncReplicasHook>(
      replicas_, is_chief, first, again,
      internal::SyncReplicasHook::Limits{options_.step_timeout, options_.idle_limit});
}

QueueRunner SyncReplicasOptimizer::get_chief_queue_runner() const {
  return *applied("the chief's queue runner").chief_runner;
}

Tensor SyncReplicasOptimizer::get_init_tokens_op(std::optional<int> num_tokens, Site site) const {
  const internal::SiteScope there(site);
  applied("the op for initial tokens");
  const int64_t needed = replicas_->counts.default_initial_tokens();
  const int64_t count = num_tokens.value_or(-1) == -1 ? needed : *num_tokens;
  if (count < needed) {
    raise(
        Code::InvalidArgument,
        "[SyncReplicas] {} initial tokens are too few to finish the first step; it needs {}, which "
        "are handed out if no number is given",
        count, needed);
  }
  return replicas_->give_tokens(count);
}

Tensor SyncReplicasOptimizer::chief_init_op() const {
  return applied("the chief's init op").chief_init_op;
}
Tensor SyncReplicasOptimizer::local_step_init_op() const {
  return applied("the init op of the local step").local_step_init_op;
}
Tensor SyncReplicasOptimizer::ready_for_local_init_op() const {
  return applied("the check").ready_op;
}
Tensor SyncReplicasOptimizer::num_live_workers() const {
  return applied("the number of workers").num_live;
}
Variable SyncReplicasOptimizer::local_step() const { return applied("the local step").local_step; }

void SyncReplicasOptimizer::mark_left(Session& session, int worker) const {
  const SyncMembership& membership = applied("the register of workers").membership;
  check_worker(membership, worker);
  membership.mark(session, worker, SyncMembership::Event::Leave);
}

void SyncReplicasOptimizer::mark_joined(Session& session, int worker) const {
  const SyncMembership& membership = applied("the register of workers").membership;
  check_worker(membership, worker);
  membership.mark(session, worker, SyncMembership::Event::Join);
}

}  // namespace cohort
