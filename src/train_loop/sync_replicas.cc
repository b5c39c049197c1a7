#include "cohort/sync_replicas.h"

#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/variable_cell.h"
#include "train_loop/sync_replicas_hook.h"

namespace cohort {
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
  return options;
}

Variable require_step(const std::optional<Variable>& given) {
  const std::optional<Variable> step = given ? given : find_global_step();
  if (step) return *step;
  raise(Code::InvalidArgument,
        "[SyncReplicas] a global step is required to tell stale gradients; make it with "
        "global_step()");
}

void check_variables(const Gradients& gradients, const std::vector<Variable>& variables) {
  if (variables.empty()) {
    raise(Code::InvalidArgument, "[SyncReplicas] there must be at least one variable");
  }
  if (gradients.size() != variables.size()) {
    raise(Code::InvalidArgument, "[SyncReplicas] {} gradients for {} variables", gradients.size(),
          variables.size());
  }
  for (const Variable& variable : variables) {
    if (internal::VariableAccess::impl(variable)->first_copy().handle.is_symbolic()) continue;
    raise(Code::InvalidArgument, "[SyncReplicas] '{}' is not a graph's variable", variable.name());
  }
  if (std::none_of(gradients.begin(), gradients.end(),
                   [](const Gradient& gradient) { return gradient.defined(); })) {
    raise(Code::InvalidArgument, "[SyncReplicas] none of the {} variables has a gradient",
          variables.size());
  }
}

void check_worker(const SyncMembership& membership, int worker) {
  if (worker >= 0 && worker < membership.num_workers()) return;
  raise(Code::InvalidArgument, "[SyncReplicas] there is no worker {} among {}", worker,
        membership.num_workers());
}

}  // namespace

SyncReplicasOptimizer::SyncReplicasOptimizer(optim::Optimizer& optimizer,
                                             const SyncReplicasOptions& options)
    : optimizer_(optimizer), options_(checked(options)) {}

Tensor SyncReplicasOptimizer::apply_gradients(const Gradients& gradients,
                                              const std::vector<Variable>& variables,
                                              std::optional<Variable> global_step) {
  if (replicas_) {
    raise(
        Code::FailedPrecondition,
        "[SyncReplicas] gradients were applied already; an optimizer does it for one graph, once");
  }
  check_variables(gradients, variables);
  replicas_ = std::make_shared<SyncReplicas>(optimizer_, options_, gradients, variables,
                                             require_step(global_step));
  return replicas_->train_op();
}

Tensor SyncReplicasOptimizer::minimize(const Tensor& loss, const std::vector<Variable>& variables,
                                       std::optional<Variable> global_step) {
  const std::vector<Variable> all = variables.empty() ? trainable_variables() : variables;
  if (all.empty()) check_variables({}, all);
  return apply_gradients(gradients({loss}, all), all, global_step);
}

const SyncReplicas& SyncReplicasOptimizer::applied(std::string_view what) const {
  if (replicas_) return *replicas_;
  raise(Code::FailedPrecondition,
        "[SyncReplicas] {} is there only after apply_gradients() or minimize()", what);
}

std::shared_ptr<SessionRunHook> SyncReplicasOptimizer::make_session_run_hook(bool is_chief,
                                                                             int num_tokens) const {
  applied("the hook");
  const Tensor first = get_init_tokens_op(num_tokens);
  const internal::ReplicaCounts& counts = replicas_->counts();
  const Tensor again = replicas_->give_tokens(std::max(counts.total, counts.to_aggregate));
  return std::make_shared<internal::SyncReplicasHook>(
      replicas_, is_chief, first, again,
      internal::SyncReplicasHook::Limits{options_.step_timeout, options_.idle_limit});
}

QueueRunner SyncReplicasOptimizer::get_chief_queue_runner() const {
  return applied("the chief's queue runner").chief_runner();
}

Tensor SyncReplicasOptimizer::get_init_tokens_op(int num_tokens) const {
  applied("the op for initial tokens");
  const int64_t needed = replicas_->counts().default_initial_tokens();
  const int64_t count = num_tokens == -1 ? needed : num_tokens;
  if (count < needed) {
    raise(Code::InvalidArgument,
          "[SyncReplicas] {} initial tokens are too few to finish the first step; it needs {}",
          num_tokens, needed);
  }
  return replicas_->give_tokens(count);
}

Tensor SyncReplicasOptimizer::chief_init_op() const {
  return applied("the chief's init op").chief_init_op();
}
Tensor SyncReplicasOptimizer::local_step_init_op() const {
  return applied("the init op of the local step").local_step_init_op();
}
Tensor SyncReplicasOptimizer::ready_for_local_init_op() const {
  return applied("the check").ready_op();
}
Tensor SyncReplicasOptimizer::num_live_workers() const {
  return applied("the number of workers").num_live();
}
Variable SyncReplicasOptimizer::local_step() const {
  return applied("the local step").local_step();
}

void SyncReplicasOptimizer::mark_left(Session& session, int worker) const {
  const SyncMembership& membership = applied("the register of workers").membership();
  check_worker(membership, worker);
  membership.mark(session, worker, SyncMembership::Event::Leave);
}

void SyncReplicasOptimizer::mark_joined(Session& session, int worker) const {
  const SyncMembership& membership = applied("the register of workers").membership();
  check_worker(membership, worker);
  membership.mark(session, worker, SyncMembership::Event::Join);
}

}  // namespace cohort
