#include "graph_training/sync_replicas_graph.h"

#include <map>
#include <variant>

#include "base/mutex.h"
#include "base/site_scope.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "cohort/queue.h"
#include "graph/graph_impl.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "ops/fifo_queue.h"
#include "ops/op.h"
#include "variables/graph_variable.h"

namespace cohort::internal {

namespace {

// A graph's registers by name: the optimizers of one graph share the register of a name.
struct Registers {
  Turn making;  // of the thread that makes a register, which asks the user's device functions
  std::map<std::string, Variable> by_name;  // guarded by making
};

// The register is not a global variable, or checkpoints would keep which workers were absent. It is
// not a local variable either, or each worker would initialise it.
Variable find_or_make_register(const std::string& name, int num_workers) {
  auto& registers = GraphAccess::impl(get_default_graph())->companion<Registers>();
  const std::lock_guard one_at_a_time(registers.making);
  const auto found = registers.by_name.find(name);
  if (found != registers.by_name.end()) return found->second;
  const auto made = std::make_shared<GraphVariable>(VariableRequest{
      [=] {
        const LibraryCode here;
        return zeros({num_workers + 1}, kInt64);
      },
      {.name = name, .trainable = false, .dtype = kInt64, .shape = {num_workers + 1}}});
  return registers.by_name.emplace(name, VariableAccess::make(made)).first->second;
}

Tensor zeros_unless_initialized(const Variable& absent, const Tensor& initialized) {
  return cond(
      initialized, [&] { return absent.read_value(); },
      [&] { return zeros(absent.shape(), kInt64); });
}

FifoQueue numbers_queue(const std::string& name) {
  return FifoQueue({.components = {{kInt64, {}}}, .name = name, .shared_name = name});
}

FifoQueue numbers_queue_beside(const Variable& variable, const std::string& name) {
  const Colocation together(handle_of(variable));
  return numbers_queue(name);
}

// The handle of the queue that numbers_queue() makes under this name.
Tensor handle_of_queue(const std::string& name) {
  const Spec number{kInt64, Shape{}};
  return add_handle(kQueueHandle, name, name,
                    {{"capacity", QueueState::kNoLimit}, {"components", pack_specs({&number, 1})}},
                    {})
      .handle;
}

Variable make_local_step(const std::string& name, const Variable& global_step) {
  const auto start = [&] {
    const LibraryCode here;
    return global_step.read_value();
  };
  return local_variable(start, {.name = name, .dtype = kInt64, .shape = Shape{}});
}

// The worker's number is the given one, or the task of the device that its own nodes ask for.
int worker_number(const SyncReplicasOptions& options, const Variable& local_step, int64_t total) {
  if (options.worker_index) return *options.worker_index;
  const DeviceName device = DeviceName::parse(local_step.device());
  const bool usable = device.task && *device.task < total;
  return usable ? *device.task : SyncMembership::kAnonymous;
}

std::variant<ConditionalAccumulator, SparseConditionalAccumulator> make_accumulator(
    const std::string& name, const Variable& variable, bool sparse) {
  const AccumulatorOptions options{
      .dtype = variable.dtype(), .shape = variable.shape(), .name = name, .shared_name = name};
  if (sparse) return SparseConditionalAccumulator(options);
  return ConditionalAccumulator(options);
}

}  // namespace

SyncMembership::SyncMembership(const std::string& name, int num_workers,
                               const Variable& global_step)
    : name_(name),
      num_workers_(num_workers),
      anchor_(handle_of(global_step)),
      absent_([&] {
        const Colocation together(handle_of(global_step));
        return find_or_make_register(name + "/absent", num_workers);
      }()),
      changes_(numbers_queue_beside(global_step, name + "/changes")) {
  row_ = placeholder(kInt64, {}, name + "/worker");
  number_ = placeholder(kInt64, {}, name + "/absent_or_not");
  const Colocation together(anchor_);
  initialized_ = is_variable_initialized(absent_);
  init_ = absent_.assign(zeros_unless_initialized(absent_, initialized_));
  reset_ = absent_.assign(zeros(absent_.shape(), kInt64));
  changed_ = changes_.dequeue()[0];
  poke_ = changes_.enqueue({Tensor(int64_t{0})});
  const IndexedSlices one_row{reshape(number_, {1}), reshape(row_, {1}), absent_.shape()};
  const auto then_poke = [&](const Tensor& marked) {
    const ControlDependencies after({marked});
    return changes_.enqueue({Tensor(int64_t{0})});
  };
  mark_known_ = then_poke(absent_.scatter_update(one_row));
  mark_other_ = then_poke(absent_.scatter_add(one_row));
}

Tensor SyncMembership::count_live() const {
  const Colocation together(anchor_);
  return int64_t{num_workers_} - sum(absent_.read_value());
}

const Tensor& handle_of(const Variable& variable) {
  return VariableAccess::impl(variable)->handle().handle;
}

SyncMembership::Presence SyncMembership::presence_of(int worker) const {
  const Colocation together(anchor_);
  const std::string place = name_ + "/present/" + std::to_string(worker);
  const std::string arrived = name_ + "/arrived/" + std::to_string(worker);
  const Tensor hold =
      apply(kHoldPresence,
            {handle_of_queue(place), handle_of(absent_), handle_of_queue(changes_.name()),
             handle_of_queue(arrived), Tensor(int64_t{worker})},
            {});
  return {.hold = hold,
          .held = numbers_queue(arrived).dequeue()[0],
          .release = numbers_queue(place).enqueue({Tensor(int64_t{0})})};
}

bool SyncMembership::mark(Session& session, int worker, Event event) const {
  if (!session.run(initialized_).to<bool>()) return false;
  const bool leaves = event == Event::Leave;
  if (worker == kAnonymous) {
    session.run(mark_other_, {{row_, Tensor(int64_t{num_workers_})},
                              {number_, Tensor(int64_t{leaves ? 1 : -1})}});
  } else {
    session.run(mark_known_,
                {{row_, Tensor(int64_t{worker})}, {number_, Tensor(int64_t{leaves ? 1 : 0})}});
  }
  return true;
}

// Accumulates the gradients of one variable for an update. The nodes are placed with the variable.
class GradientAccumulator {
 public:
  GradientAccumulator(const std::string& name, const Variable& variable, const Gradient& gradient)
      : anchor_(handle_of(variable)), accumulator_([&] {
          const Colocation together(anchor_);
          return make_accumulator(name, variable, gradient.is_sparse());
        }()) {}

  Tensor apply(const Gradient& gradient, const Tensor& local_step) {
    const Colocation together(anchor_);
    if (auto* rows = std::get_if<SparseConditionalAccumulator>(&accumulator_)) {
      return rows->apply_gradient(gradient.slices(), local_step);
    }
    return std::get<ConditionalAccumulator>(accumulator_)
        .apply_gradient(gradient.dense(), local_step);
  }

  Gradient take(int64_t count) {
    const Colocation together(anchor_);
    if (auto* rows = std::get_if<SparseConditionalAccumulator>(&accumulator_)) {
      return rows->take_gradient(count);
    }
    return std::get<ConditionalAccumulator>(accumulator_).take_gradient(count);
  }

  Tensor set_global_step(const Tensor& step) {
    const Colocation together(anchor_);
    return handle().set_global_step(step);
  }

  Tensor limit_required(const Tensor& most) {
    const Colocation together(anchor_);
    return handle().limit_required(most);
  }

  Tensor cancel_pending_takes() {
    const Colocation together(anchor_);
    return handle().cancel_pending_takes();
  }

 private:
  AccumulatorHandle& handle() {
    return std::visit([](auto& kind) -> AccumulatorHandle& { return kind; }, accumulator_);
  }

  Tensor anchor_;
  std::variant<ConditionalAccumulator, SparseConditionalAccumulator> accumulator_;
};

Tensor ReplicaCounts::required(const Tensor& live) const {
  const Tensor reachable = live + std::max<int64_t>(0, to_aggregate - total);
  return clip(reachable, int64_t{1}, to_aggregate);
}

Tensor ReplicaCounts::tokens(const Tensor& live) const { return maximum(live, required(live)); }

SyncReplicas::SyncReplicas(optim::Optimizer& optimizer, const SyncReplicasOptions& options,
                           const Gradients& gradients, const std::vector<Variable>& variables,
                           const Variable& step)
    : counts{options.replicas_to_aggregate,
             options.total_num_replicas.value_or(options.replicas_to_aggregate)},
      global_step(step),
      membership(options.name, static_cast<int>(counts.total), step),
      local_step(make_local_step(options.name + "/local_step", step)),
      worker(worker_number(options, local_step, counts.total)),
      tokens(numbers_queue_beside(step, options.name + "/tokens")) {
  if (worker != SyncMembership::kAnonymous) presence = membership.presence_of(worker);
  accumulate(options.name, gradients, variables);
  train_op = build_train_op(gradients);
  const Tensor update = build_update(optimizer, options, variables);
  chief_runner.emplace(
      std::vector<Tensor>{update, build_limits()},
      QueueRunnerOptions{.name = options.name + "/chief", .cancel_op = build_cancel()});
  chief_init_op = build_chief_init();
  local_step_init_op = local_step.assign(global_step.read_value());
  ready_op = report_uninitialized_variables(global_variables());
  step_now = global_step.read_value();
  num_live = membership.count_live();
}

void SyncReplicas::accumulate(const std::string& name, const Gradients& gradients,
                              const std::vector<Variable>& variables) {
  for (size_t i = 0; i < variables.size(); ++i) {
    accumulators.emplace_back();
    if (!gradients[i].defined()) continue;
    accumulators.back() = std::make_shared<GradientAccumulator>(
        name + "/" + variables[i].name() + "/gradients", variables[i], gradients[i]);
  }
}

// Adds the gradients, then takes a token, which says which step the variables are at.
Tensor SyncReplicas::build_train_op(const Gradients& gradients) {
  const Tensor step = local_step.read_value();
  std::vector<Tensor> applied;
  for (size_t i = 0; i < accumulators.size(); ++i) {
    if (accumulators[i]) applied.push_back(accumulators[i]->apply(gradients[i], step));
  }
  const ControlDependencies after(applied);
  return local_step.assign(take_token());
}

Tensor SyncReplicas::take_token() {
  const Colocation together(handle_of(global_step));
  return tokens.dequeue()[0];
}

Tensor SyncReplicas::required_now() const {
  const Colocation together(handle_of(global_step));
  return counts.required(membership.count_live());
}

Tensor SyncReplicas::tokens_now() const {
  const Colocation together(handle_of(global_step));
  return counts.tokens(membership.count_live());
}

Tensor SyncReplicas::give_tokens(const Tensor& count) {
  const Colocation together(handle_of(global_step));
  const Tensor step = reshape(global_step.read_value(), {1});
  return tokens.enqueue_many({apply(kRepeat, {step, reshape(count, {1})}, {})});
}

Tensor SyncReplicas::build_update(optim::Optimizer& optimizer, const SyncReplicasOptions& options,
                                  const std::vector<Variable>& variables) {
  Gradients taken;
  for (auto& accumulator : accumulators) {
    taken.push_back(accumulator ? accumulator->take(counts.to_aggregate) : Gradient());
  }
  const Tensor updated = optimizer.apply_gradients(taken, variables);
  // The step counts up when all variables are updated, and tokens are given out after that.
  const ControlDependencies after_update({updated});
  const Tensor counted = global_step.assign_add(int64_t{1});
  const ControlDependencies after_count({counted});
  const Tensor given = give_tokens(tokens_now());
  if (!options.after_update) return given;
  const ControlDependencies after_tokens({given});
  const Tensor after = [&] {
    const UsersCode update;
    return options.after_update();
  }();
  return group({after});
}

// Waits until workers come or go. A pending update then needs no more gradients than the present
// workers can give.
Tensor SyncReplicas::build_limits() {
  const ControlDependencies after({membership.wait_op()});
  const Tensor most = required_now();
  std::vector<Tensor> limits;
  for (auto& accumulator : accumulators) {
    if (accumulator) limits.push_back(accumulator->limit_required(most));
  }
  return group(limits);
}

Tensor SyncReplicas::build_cancel() {
  std::vector<Tensor> all{membership.poke_op()};
  for (auto& accumulator : accumulators) {
    if (accumulator) all.push_back(accumulator->cancel_pending_takes());
  }
  return group(all);
}

Tensor SyncReplicas::build_chief_init() {
  const Tensor step = global_step.read_value();
  const ControlDependencies after({membership.init_op()});
  const Tensor most = required_now();
  std::vector<Tensor> all{local_step.assign(step)};
  for (auto& accumulator : accumulators) {
    if (!accumulator) continue;
    all.push_back(accumulator->set_global_step(step));
    all.push_back(accumulator->limit_required(most));
  }
  return group(all);
}

}  // namespace cohort::internal
