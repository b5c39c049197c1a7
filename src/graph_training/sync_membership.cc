#include "graph_training/sync_membership.h"

#include <map>
#include <mutex>

#include "cohort/control_flow.h"
#include "cohort/ops.h"
#include "graph/resource_handles.h"
#include "graph/scopes.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "ops/fifo_queue.h"
#include "ops/op.h"
#include "variables/graph_variable.h"

namespace cohort::internal {
namespace {

// A graph's registers by name: the optimizers of one graph share the register of a name.
struct Registers {
  std::mutex mutex;
  std::map<std::string, Variable> by_name;  // guarded by mutex
};

// The register is not a global variable, or checkpoints would keep which workers were absent. It is
// not a local variable either, or each worker would initialise it.
Variable find_or_make_register(const std::string& name, int num_workers) {
  auto& registers = GraphAccess::impl(get_default_graph())->companion<Registers>();
  const std::lock_guard lock(registers.mutex);
  const auto found = registers.by_name.find(name);
  if (found != registers.by_name.end()) return found->second;
  const auto made = std::make_shared<GraphVariable>(VariableRequest{
      [=] { return zeros({num_workers + 1}, kInt64); },
      {.name = name, .trainable = false, .dtype = kInt64, .shape = {num_workers + 1}}});
  return registers.by_name.emplace(name, VariableAccess::make(made)).first->second;
}

Tensor zeros_unless_initialized(const Variable& absent, const Tensor& initialized) {
  return cond(
      initialized, [&] { return absent.read_value(); },
      [&] { return zeros(absent.shape(), kInt64); });
}

FifoQueue numbers_queue(const std::string& name) {
  return FifoQueue({.dtypes = {kInt64}, .shapes = {{}}, .name = name, .shared_name = name});
}

// The handle of the queue that numbers_queue() makes under this name.
Tensor handle_of_queue(const std::string& name) {
  const Spec number{kInt64, Shape{}};
  return add_handle(kQueueHandle, name, name,
                    {{"capacity", QueueState::kNoLimit}, {"components", pack_specs({&number, 1})}},
                    {})
      .handle;
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
      changes_([&] {
        const Colocation together(handle_of(global_step));
        return numbers_queue(name + "/changes");
      }()) {
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

}  // namespace cohort::internal
